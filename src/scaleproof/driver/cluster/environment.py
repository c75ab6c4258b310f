"""Which variables of the login node reach a job: those of a list, which the profile extends, and no secret of them."""

import os
import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

# Variables that set up Python, libraries, devices and module systems. Any other variable stays here.
NAMES = """
PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM TMPDIR XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME NO_PROXY
no_proxy LD_LIBRARY_PATH LD_PRELOAD LIBRARY_PATH CPATH MANPATH CC CXX CUDAHOSTCXX BASH_ENV
PYTHONPATH PYTHONHOME PYTHONUSERBASE PYTHONNOUSERSITE PYTHONUNBUFFERED PYTHONFAULTHANDLER PYTHONHASHSEED
PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX PYTHONWARNINGS PYTHONUTF8 PYTHONOPTIMIZE VIRTUAL_ENV
CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE CONDA_PYTHON_EXE CONDA_SHLVL MAMBA_EXE MAMBA_ROOT_PREFIX
MODULEPATH MODULEPATH_ROOT MODULESHOME MODULES_CMD LOADEDMODULES _LMFILES_ BASH_FUNC_module%% BASH_FUNC_ml%%
SPACK_ROOT APPTAINER_NAME APPTAINER_CONTAINER APPTAINER_BIND APPTAINER_CACHEDIR
SINGULARITY_NAME SINGULARITY_CONTAINER SINGULARITY_BIND SINGULARITY_CACHEDIR SLURM_CONF PBS_DEFAULT
CUDA_HOME CUDA_PATH CUDA_ROOT CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_LAUNCH_BLOCKING CUDA_CACHE_PATH
CUDA_CACHE_DISABLE CUDA_CACHE_MAXSIZE CUDA_DEVICE_MAX_CONNECTIONS CUDA_MODULE_LOADING CUDA_MPS_PIPE_DIRECTORY
CUDA_MPS_LOG_DIRECTORY NVIDIA_TF32_OVERRIDE NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES
ROCM_PATH ROCM_HOME ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES HIP_PATH HSA_OVERRIDE_GFX_VERSION
HSA_FORCE_FINE_GRAIN_PCIE PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF TORCH_HOME
TORCH_LOGS TORCH_CPP_LOG_LEVEL TORCH_DISTRIBUTED_DEBUG TORCH_SHOW_CPP_STACKTRACES TORCH_CUDA_ARCH_LIST
TORCH_EXTENSIONS_DIR TORCH_ALLOW_TF32_CUBLAS_OVERRIDE TORCH_BLAS_PREFER_CUBLASLT TORCH_COMPILE_DISABLE
TRITON_CACHE_DIR TRITON_PTXAS_PATH DS_ACCELERATOR DS_BUILD_OPS DS_SKIP_CUDA_CHECK NUMEXPR_NUM_THREADS
NUMEXPR_MAX_THREADS HF_HOME HF_HUB_CACHE HF_HUB_OFFLINE HF_DATASETS_CACHE HF_DATASETS_OFFLINE HF_ENDPOINT
HF_HUB_DISABLE_TELEMETRY HF_HUB_DOWNLOAD_TIMEOUT HF_HUB_ETAG_TIMEOUT TRANSFORMERS_CACHE TRANSFORMERS_OFFLINE
TRANSFORMERS_VERBOSITY TOKENIZERS_PARALLELISM RAYON_NUM_THREADS SNAKEMAKE_OUTPUT_CACHE SCALEPROOF_CAMPAIGNS
SCALEPROOF_CACHE SCALEPROOF_ROOT SCALEPROOF_WATCH SCALEPROOF_IMAGE
"""
ALWAYS_SENT = frozenset(NAMES.split())
# Families of switches: of threads and arithmetic, of communication, of torch's compiler, of locales, modules, sbatch.
FAMILIES = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "ATEN_", "MALLOC_", "CUBLAS_", "CUDNN_"),
    *("NCCL_", "TORCH_NCCL_", "GLOO_", "RCCL_", "NVSHMEM_", "NVTE_", "UCX_", "FI_", "OMPI_MCA_", "PMIX_MCA_", "I_MPI_"),
    *("TORCHINDUCTOR_", "TORCHDYNAMO_", "LC_", "LMOD_", "__LMOD_REF_COUNT_", "EBROOT", "EBVERSION", "SBATCH_"),
)
SECRET = re.compile(
    r"TOKEN(?!IZERS)|SECRET|PASS|PWD|CREDENTIAL|API_?KEY|ACCESS|PRIVATE|_KEY$|_PAT$|JWT|COOKIE|BEARER|WEBHOOK"
    r"|AUTH(?!OR)|SESSION|SIGNATURE|LICEN[CS]E"
)
ADDRESS = re.compile(r"://[^/\s@]+@")  # with a user, a token or a password in it


def job_environment(also: Collection[str] = (), environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of `environment` that a job gets.

    `also`: further names, which are sent even if they look like secrets, and patterns such as `MY_*`, by which nothing
    is sent that looks like a secret. Addresses with a user or a password are never sent.
    """
    return {name: value for name, value in environment.items() if _is_sent(name, also) and not ADDRESS.search(value)}


def withheld(also: Collection[str] = (), environment: Mapping[str, str] = os.environ) -> list[str]:
    return sorted(environment.keys() - job_environment(also, environment).keys())


def _is_sent(name: str, also: Collection[str]) -> bool:
    """Return whether a job gets the variable `name`. `also`: as in `job_environment`."""
    if name == "SNAKEMAKE_PROFILE":  # it would make a job's Snakemake submit jobs again
        return False
    if name in ALWAYS_SENT or name in also:
        return True
    matches_pattern = name.startswith(FAMILIES) or any(fnmatchcase(name, pattern) for pattern in also)
    return matches_pattern and not SECRET.search(name.upper())
