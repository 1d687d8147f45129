"""One folder for each model, with everything of that model; `labelled` is what mixtures and groups share."""
