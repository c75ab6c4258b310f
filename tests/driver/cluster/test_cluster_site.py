"""What a profile says of its cluster, and what Snakemake's --config and --configfile add to it."""

import pytest

from scaleproof.driver.cluster.site import Site
from scaleproof.ground.errors import UserError


def test_a_site_is_what_its_profile_says():
    site = Site.from_config({"gpu_type": "h100", "exclusive": "False", "container": "scaleproof.sif"})
    assert site == Site(gpu_type="h100", exclusive=False)
    assert Site.from_config(None) == Site()
    assert Site.from_config({"exclusive": None, "anonymous": None, "gpu_type": None}) == Site(), "keys without a value"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"gpu_typ": "h100"},
            'a profile). Did you mean "gpu_type"? Allowed: ',
        ),
        ({"gpu_typ": None}, 'unknown key "gpu_typ"'),
        ({"anonymus": True}, 'Did you mean "anonymous"?'),
        ({"repeats": 5}, "write it into config/campaigns/NAME.yaml"),
        ({"scheduler": "slrm"}, 'scheduler is "slrm". Did you mean "slurm"?'),
        ({"exclusive": "perhaps"}, 'exclusive is "perhaps"; allowed: true, false'),
        ({"gpu_type": "h100; rm"}, "gpu_type"),
        ({"title": "x", "vary": {}}, '"title" is a key of a campaign, which needs no --configfile'),
    ],
)
def test_a_wrong_key_or_value_gets_one_message(config, message):
    with pytest.raises(UserError) as error:
        Site.from_config(config)
    assert message in str(error.value)
