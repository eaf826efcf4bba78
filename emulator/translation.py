"""From template.yaml to resolved CloudFormation resources, by SAM's own translator."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from samtranslator.model.exceptions import InvalidDocumentException
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

from emulator.intrinsics import REGION, Resolver, Unresolved

BUILT = "built"  # the "bucket" of what sam build made; its keys are logical ids
CODE = {"AWS::Serverless::Function": "CodeUri", "AWS::Serverless::LayerVersion": "ContentUri"}


class _NoManagedPolicies:
    def load(self) -> dict[str, str]:
        return {}


def translate(template: Path, parameters: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Resources by logical id. Code is at s3://built/<logical id of the function or layer>."""
    os.environ.setdefault("AWS_DEFAULT_REGION", REGION)  # the translator asks boto3 for it
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    declared = yaml_parse(template.read_text(encoding="utf-8"))
    for name, resource in declared.get("Resources", {}).items():
        if code := CODE.get(resource.get("Type", "")):
            resource.setdefault("Properties", {})[code] = f"s3://{BUILT}/{name}"
    Resolver({**declared, "Resources": {}}, parameters)  # names a bad parameter before SAM stumbles over it
    try:
        translated = transform(declared, dict(parameters), _NoManagedPolicies())
    except InvalidDocumentException as error:
        raise Unresolved("; ".join(cause.message for cause in error.causes) or error.message) from None
    return Resolver(translated, parameters).resources()


def built_paths(build: Path) -> dict[str, Path]:
    """Where `sam build` put the code of each function and layer, by logical id."""
    template = yaml_parse((build / "template.yaml").read_text(encoding="utf-8"))
    return {
        name: (build / resource["Properties"][code]).resolve()
        for name, resource in template.get("Resources", {}).items()
        if (code := CODE.get(resource.get("Type", "")))
    }
