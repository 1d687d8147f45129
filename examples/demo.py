"""100,000 points from 20 clusters, on 8 shards, from the default start; writes its results to demo-run/."""

import shutil
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

import unbounded as ub
from unbounded.datasets import gaussian_mixture
from unbounded.models.mixtures.plots import clusters
from unbounded.report.plots import traces
from unbounded.report.text import text

out = Path("demo-run")
shutil.rmtree(out, ignore_errors=True)
data = gaussian_mixture(110_000, n_columns=2, n_clusters=20, separation=14.0, seed=2)
X, holdout = data.X[:100_000], data.X[100_000:]

began = time.perf_counter()
model = ub.DirichletProcessMixture(
    n_shards=8, n_warmup=200, n_draws=300, random_state=0, checkpoint=out, progress=True
).fit(X, holdout=holdout[:2000])
seconds = time.perf_counter() - began

print(text(model))
print(f"fitted in               {seconds:.1f} s")
print(f"agreement with truth    {adjusted_rand_score(data.labels[:100_000], model.labels_):.3f} (adjusted Rand index)")
print(f"held-out log density    {model.score(holdout):.4f} (the true mixture: {data.log_density(holdout).mean():.4f})")
clusters(X, model.labels_).savefig(out / "clusters.png", dpi=120)
traces(model.posterior_).savefig(out / "traces.png", dpi=120)
np.save(out / "labels.npy", model.labels_)
print(f"pictures                {out / 'clusters.png'}, {out / 'traces.png'}")
