"""One folder for each model, with everything of that model; `labelled` is what mixtures and groups share.

`families` lists them. It is not imported here: a worker needs the shards of one model, and no estimator.
"""
