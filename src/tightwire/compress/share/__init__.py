"""Weight sharing: few numbers stand for many weights.

kmeans.py     1-D k-means by Lloyd's rounds; linear, density and random starts
optimal.py    the best 1-D clustering there is, by dynamic programming
entropy.py    clustering that counts bits beside squares
uniform.py    equidistant levels, to compare with; qat.py trains through them
tensors.py    weights and centroids → `SharedWeights`
centroids.py  centroids trained by summed gradients, assignments held
rate.py       how many bits codes will take
search.py     which layer gets which codebook: fewest bytes for a loss that is borne
"""

from tightwire.compress.share.centroids import Centroids
from tightwire.compress.share.entropy import entropy_constrained
from tightwire.compress.share.kmeans import kmeans, start_at
from tightwire.compress.share.optimal import optimal
from tightwire.compress.share.rate import estimate_nbytes
from tightwire.compress.share.search import Candidate, Chosen, search
from tightwire.compress.share.tensors import share, share_to
from tightwire.compress.share.uniform import uniform

__all__ = [
    "Candidate", "Centroids", "Chosen", "entropy_constrained", "estimate_nbytes", "kmeans", "optimal", "search",
    "share", "share_to", "start_at", "uniform",
]  # fmt: skip
