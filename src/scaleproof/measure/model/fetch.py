"""The config.json of a model on the Hugging Face hub, fetched once and kept beside the campaigns."""

import json

import httpx2
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

from scaleproof.ground.campaign.transformers_model import fetched_config, reasons_not_measurable
from scaleproof.ground.errors import UserError
from scaleproof.measure.corpus.hub import hub_api
from scaleproof.measure.corpus.transfer import lost_connection


def fetch_config(hub: str, revision: str, endpoint: str, token: str | None) -> str:
    """Store the configuration of the hub's model `hub` (owner/name), and return the line that a campaign needs.

    `revision`: a branch or a commit; `endpoint`: the hub's address; `token`: for a gated model, sent to the hub alone.
    Raises UserError where the hub refuses it, or its model cannot be measured.
    """
    api = hub_api(endpoint, token)
    try:
        commit = str(api.model_info(hub, revision=revision).sha)
        downloaded = api.hf_hub_download(hub, "config.json", revision=commit)
    except HfHubHTTPError as error:
        code = error.response.status_code
        gated = "; is it gated? Accept its terms and `export HF_TOKEN=...`" if code in (401, 403) else ""
        raise UserError(f"{endpoint} has no config.json of {hub} at {revision} (HTTP {code}{gated})") from None
    except OfflineModeIsEnabled:
        raise UserError("HF_HUB_OFFLINE is set, which forbids to ask the hub; unset it") from None
    except (LocalEntryNotFoundError, httpx2.HTTPError, OSError) as error:
        fault = f"{endpoint} cannot be reached, or is no hub: {lost_connection(error, endpoint)}"
        advice = "without a network a campaign takes the model's config.json: model: {config: FILE}"
        raise UserError(f"{fault}; HTTPS_PROXY names a proxy, HF_ENDPOINT a mirror, and {advice}") from None
    with open(downloaded, encoding="utf-8") as file:
        architecture = json.load(file)
    for reason in reasons_not_measurable(architecture):
        raise UserError(f"{hub} cannot be measured exactly: {reason}")
    path = fetched_config(hub, commit)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(architecture, indent=2) + "\n")
    return f"model: {{hub: {hub}, revision: {commit}}}"
