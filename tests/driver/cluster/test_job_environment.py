"""What of the login node's environment travels with a job."""

import pytest

from scaleproof.driver.cluster.environment import job_environment, withheld

SENT = {
    "PATH": "/bin",
    "HOME": "/h",
    "LD_LIBRARY_PATH": "/l",
    "NCCL_DEBUG": "INFO",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "0",
    "SLURM_CONF": "c",
    "MODULEPATH": "/m",
    "LMOD_DIR": "/m",
    "BASH_FUNC_module%%": "()",
    "LC_ALL": "C",
    "OMP_NUM_THREADS": "2",
    "PYTHONPATH": "/p",
    "HF_HOME": "/hf",
    "SCALEPROOF_CAMPAIGNS": "demo=1",
    **dict.fromkeys(("TORCH_NCCL_BLOCKING_WAIT", "UCX_TLS", "MKL_NUM_THREADS", "SBATCH_RESERVATION"), "1"),
}
# As seen on login nodes: those that an earlier list of bad names caught, those that it let through, and others.
SECRET = {
    **dict.fromkeys(("HF_TOKEN", "HF_TOKEN_PATH", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "OPENAI_KEY"), "s"),
    "GPG_PASSPHRASE": "s",
    "DATABASE_URL": "postgres://u:s@h",
    "PIP_INDEX_URL": "https://u:s@h/simple",
    "http_proxy": "http://u:s@h:3128",
    "SLACK_WEBHOOK_URL": "https://h/s",
    "MYSQL_PWD": "s",
    "PGPASS": "s",
    **dict.fromkeys(("CI_JOB_JWT", "BEARER", "AUTH", "MY_COOKIE", "KRB5CCNAME"), "s"),
    **dict.fromkeys(("SSH_AUTH_SOCK", "XAUTHORITY", "github_pat", "DOCKER_AUTH_CONFIG", "SAS_URL", "MY_DSN"), "s"),
    **dict.fromkeys(
        ("SINGULARITY_DOCKER_PASSWORD", "APPTAINER_DOCKER_PASSWORD", "SNAKEMAKE_STORAGE_S3_SECRET_KEY"), "s"
    ),
    "CONDA_CHANNEL_ALIAS": "https://u:s@h",
    "PYTHON_KEYRING_BACKEND_PASSWORD": "s",
    "VAULT_ADDR": "https://h",
    **dict.fromkeys(("MODULE_AUTH", "TORCH_AUTH_HEADER", "HF_SESSION", "CUDA_SIGNATURE", "UCX_PRIVATE"), "s"),
    "HF_ENDPOINT": "https://s@h",
    "SNAKEMAKE_REMOTE": "s3://:s@h/bucket",
    "NCCL_SOCKET_PROXY": "https://s@h",
    "KUBECONFIG": "/home/u/.kube/production",
    # Neither name nor value looks like a secret, or the name looks like one of a family that travels.
    **dict.fromkeys(("CUDA_LICENSE", "SNAKEMAKE_S3_ACCESS", "CUDA_DOWNLOAD_ID", "HF_LOGIN", "TORCHX_USER"), "s"),
    **dict.fromkeys(("PYTHON_GITLAB_DEPLOY", "CONDA_ACCOUNT", "MAMBA_MIRROR", "EB_GITHUB_USER", "SPACK_MIRROR"), "s"),
    **dict.fromkeys(("MODULE_SERVER_PIN", "LMOD_LICENSE", "NVIDIA_NGC_ORG", "NVIDIA_SEED", "DS_SAS", "DSN"), "s"),
    **dict.fromkeys(("TORCH_HUB_ID", "PYTORCH_INDEX_URL", "TRITON_REMOTE", "TRANSFORMERS_OTP", "UCX_TLS_PRIVATE"), "s"),
    **dict.fromkeys(("APPTAINERENV_PIN", "SINGULARITYENV_OTP", "SCALEPROOF_NOTE", "SNAKEMAKE_SLACK", "NCCLX"), "s"),
    **dict.fromkeys(("BASH_FUNC_login%%", "LDAP_BIND", "OMPI_LOGIN", "XDG_SESSION_COOKIE", "PMIX_SERVER_URI41"), "s"),
}


@pytest.mark.fault("secrets in the environment of the login node", "not sent along")
def test_only_what_is_listed_travels():
    assert job_environment(environment=SENT | SECRET) == SENT
    assert withheld(environment=SENT | SECRET) == sorted(SECRET)


def test_nothing_of_a_job_around_this_process_is_sent():
    own = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_JOB_ID": "4", "SNAKEMAKE_PROFILE": "slurm"}
    assert job_environment(environment=SENT | own) == SENT


def test_a_profile_extends_the_list():
    """A name in full is sent whatever it looks like; a pattern brings no secrets, and no address a password."""
    given = SECRET | {"MY_MODE": "offline", "MY_API_KEY": "s"}
    sent = job_environment({"MY_*", "WANDB_API_KEY", "http_proxy"}, given)
    assert sent == {"MY_MODE": "offline", "WANDB_API_KEY": "s"} | {"MY_DSN": "s"}
