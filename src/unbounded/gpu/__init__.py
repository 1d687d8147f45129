"""The toolbox of GPUs: what `compiled/` is for CPUs. It knows no statistics, and imports torch only when it is used."""
