"""Which variables of the login node reach a job: those of a list, which the profile extends, and no secret of them."""

import os
import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

# What Python, libraries, devices, networks and module systems are set up by; anything else stays here.
SENT = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TERM", "TMPDIR", "XDG_*_HOME", "NO_PROXY"),
    *("LD_*", "LIBRARY_PATH", "CPATH", "MANPATH", "PYTHON*", "VIRTUAL_ENV", "CONDA_*", "MAMBA_*", "CC", "CXX"),
    *("MODULE*", "LOADEDMODULES", "_LMFILES_", "LMOD*", "__LMOD*", "BASH_ENV", "BASH_FUNC_*", "EB*", "SPACK_*"),
    *("OMP_*", "GOMP_*", "KMP_*", "MKL_*", "OPENBLAS_*", "NUMEXPR_*", "MALLOC_*", "CUDA_*", "CUDNN_*", "CUBLAS_*"),
    *("NVIDIA_*", "NVTE_*", "NVSHMEM_*", "NCCL_*", "GLOO_*", "TORCH*", "PYTORCH_*", "TRITON_*", "DS_*", "HSA_*"),
    *("ROCM_*", "HIP_*", "HF_*", "TRANSFORMERS_*", "TOKENIZERS_*", "UCX_*", "FI_*", "OMPI_*", "PMIX_*", "I_MPI_*"),
    *("SBATCH_*", "SLURM_CONF", "PBS_DEFAULT", "KUBECONFIG", "APPTAINER_*", "SINGULARITY_*", "SNAKEMAKE_*"),
    *("SCALEPROOF_*",),
)
SECRET = re.compile(
    r"TOKEN(?!IZERS)|SECRET|PASS|PWD|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE|_KEY$|_PAT$|JWT|COOKIE|BEARER|WEBHOOK"
    r"|AUTH(?!OR)|SESSION|SIGNATURE"
)
ADDRESS = re.compile(r"://[^/\s@]+@")  # with a user, a token or a password in it


def job_environment(also: Collection[str] = (), environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of `environment` that a job gets.

    `also`: further names, or patterns such as `MY_*`. A name that is given in full is sent whatever it looks like; an
    address with a user or a password never is. A profile would make a job's Snakemake submit jobs again.
    """
    sent = {}
    for name, value in environment.items():
        listed = name in also or (_matches(name, (*SENT, *also)) and not SECRET.search(name.upper()))
        if listed and name != "SNAKEMAKE_PROFILE" and not ADDRESS.search(value):
            sent[name] = value
    return sent


def withheld(also: Collection[str] = (), environment: Mapping[str, str] = os.environ) -> list[str]:
    """The names of the variables that stay on this machine."""
    return sorted(environment.keys() - job_environment(also, environment).keys())


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
