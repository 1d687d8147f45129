"""The toolbox for GPUs, as `compiled/` is for CPUs. It knows no statistics, and imports torch only when it is used."""
