"""What the paper says, word for word, with the section that says it; findings point to these by their keys.

`python -m experiments.quotations docs/paper.md TEXT` compares the page with the paper's text, which is not part of the
repository. "…" stands for words that were left out.
"""

from __future__ import annotations

from typing import NamedTuple


class Claim(NamedTuple):
    quotation: str
    section: str  # as the paper numbers it; letters are those of the supplement
    experiment: str  # that judges it


CLAIMS = {
    # ---- that it is right
    "guarantees": Claim(
        "can be easily distributed to allow scalable inference without sacrificing asymptotic convergence guarantees",
        "Abstract",
        "exactness",
    ),
    "provably": Claim(
        "the proposed hybrid inference method can be easily distributed over multiple machines, providing "
        "provably correct inference for many BNP models",
        "6",
        "exactness",
    ),
    "several open": Claim(
        "a sampler with multiple processors instantiating new clusters is not a correct sampler until we revert "
        "to a single processor proposing new features",
        "4.1",
        "exactness",
    ),
    # ---- two Gaussians
    "low dimensions": Claim(
        "While the three algorithms perform comparably on low-dimensional data, as the dimension increases the "
        "performance of the uncollapsed sampler degrades much more than the collapsed sampler.",
        "5.1",
        "synthetic-f1",
    ),
    "high dimensions": Claim(
        "While the hybrid method performs worse in high dimensions than the collapsed method, it outperforms the "
        "uncollapsed method.",
        "5.1",
        "synthetic-f1",
    ),
    # ---- CIFAR-100 on one processor
    "more iterations": Claim(
        "We see that the uncollapsed sampler requires more iterations to converge than the collapsed sampler; "
        "however since each iteration takes less time, in some cases the wall time to convergence is slower.",
        "5.1",
        "cifar-dimensions",
    ),
    "in general faster": Claim(
        "The hybrid method has comparable iteration time to the collapsed, but, in general, converges faster.",
        "5.1",
        "cifar-dimensions",
    ),
    # ---- Cambridge
    "rate decreases": Claim(
        "the rate at which new clusters/features are added will decrease with the number of processors",
        "4.1",
        "cambridge-starts",
    ),
    "cold": Claim(
        "the cold start results in slow convergence of in the test set log likelihood for large numbers of processors",
        "5.2.1",
        "cambridge-starts",
    ),
    "grows slowly": Claim(
        "the number of features grows very slowly, as only 1/P processors are allowed to propose new features in "
        "the exact setting",
        "5.2.1",
        "cambridge-starts",
    ),
    "warm": Claim(
        "convergence is significantly improved relative to the cold-start experiments",
        "5.2.1",
        "cambridge-starts",
    ),
    "over-estimate": Claim(
        "This approach tend to over-estimate the number of clusters.",
        "4.1",
        "cambridge-starts",
    ),
    "close to four": Claim(
        "Since we revert to the asymptotically correct sampler, the final number of features is generally close "
        "to the true number of features, 4.",
        "5.2.1",
        "cambridge-starts",
    ),
    "monotonically": Claim(
        "convergence rate increases monotonically in the number of processors",
        "5.2.1",
        "cambridge-starts",
    ),
    "hot, the same": Claim(
        "all experiments roughly converge to the same test log likelihood",
        "5.2.1",
        "cambridge-starts",
    ),
    "hot, more features": Claim(
        "the number of features introduced (bottom right plot) is much greater than the warm start experiment, "
        "grows with the number of processors",
        "5.2.1",
        "cambridge-starts",
    ),
    "hot, less dramatic": Claim(
        "the difference in convergence rates between processors is not as dramatic as in the warm-start trials",
        "5.2.1",
        "cambridge-starts",
    ),
    "overestimating": Claim(
        "their approach allows all processors to add new features, which will lead to overestimating the number "
        "of features",
        "2",
        "cambridge-starts",
    ),
    "both processes": Claim(
        "for both the DP and the beta-Bernoulli process, our proposed distributed hybrid sampler converges faster "
        "than the comparison methods",
        "6",
        "cambridge-starts",
    ),
    # ---- the million
    "one day": Claim(
        "We limited the sampler to run for one day and completed 860 MCMC iterations.",
        "5.2.1",
        "cambridge-million",
    ),
    "local mode": Claim(
        "we can converge to a local mode fairly quickly under a massive distributed setting",
        "5.2.1",
        "cambridge-million",
    ),
    # ---- CIFAR-100 on eight processors
    "converges faster": Claim(
        "when distributed over eight processors, our algorithm converges faster than the two comparison methods",
        "5.2.2",
        "cifar-rivals",
    ),
    "slice, poorly": Claim(
        "since it is based on an uncollapsed method it will tend to perform poorly in high dimensions",
        "2",
        "cifar-rivals",
    ),
    "linear": Claim(
        "we see roughly linear speed-up in convergence as we increase the number of processors from 1 to 8",
        "5.2.2",
        "cifar-scaling",
    ),
    # ---- faces
    "facial features": Claim(
        "we can clearly see that our method can discover the underlying facial features in this data set",
        "C",
        "cbcl-faces",
    ),
    # ---- the table
    "wide class": Claim(
        "unifies exact parallel inference for a wide class of Bayesian nonparametric priors",
        "1",
        "table-1",
    ),
    "special cases": Claim(
        "These methods can be seen as special cases of our hybrid framework … but do not generalize to the "
        "distributed setting.",
        "2",
        "table-1",
    ),
}
