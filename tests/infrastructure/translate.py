"""SAM's own translation of template.yaml into CloudFormation, as JSON on standard output; no account is needed.

Run by the Python of the deployment's tools, not by that of the tests.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from samtranslator.translator.managed_policy_translator import ManagedPolicyLoader
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse


class NoPolicies(ManagedPolicyLoader):
    """Names of managed policies are not looked up: the template has ARNs."""

    def __init__(self) -> None:
        self._policy_map = {}

    def load(self) -> dict[str, str]:
        return {}


def translated(path: Path) -> Any:
    template = yaml_parse(path.read_text(encoding="utf-8"))
    template["Globals"]["Function"]["CodeUri"] = "s3://bucket/functions"
    for resource in template["Resources"].values():
        if "ContentUri" in resource.get("Properties", {}):
            resource["Properties"]["ContentUri"] = "s3://bucket/layer"
    return transform(template, {}, NoPolicies())


if __name__ == "__main__":
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    json.dump(translated(Path(sys.argv[1])), sys.stdout)
