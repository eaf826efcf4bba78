"""Access -> a whole configuration of Envoy, with the filter in front of the gateway. Pure: what is returned is its bootstrap."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from authz.filter_config import MOST_BODY_BYTES, configuration, source_of
from authz.model import Access, Issuer

TYPES: Final = "type.googleapis.com"
TRUSTED: Final = "/etc/ssl/certs/ca-certificates.crt"
GATEWAY: Final = "gateway"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    @property
    def as_envoy(self) -> Json:
        return {"socket_address": {"address": self.host, "port_value": self.port}}


@dataclass(frozen=True, slots=True)
class Front:
    """What a bootstrap needs to know besides who may do what."""

    wasm: str
    """The filter's file."""
    listen: Address
    gateway: Address
    most_body_bytes: int = MOST_BODY_BYTES
    trusted: str = TRUSTED
    """The certificates by which issuers are known."""


def bootstrap(access: Access, prefixes: Mapping[str, str], front: Front) -> Json:
    """Raises filter_config.Unfit."""
    said = configuration(access, prefixes, most_body_bytes=front.most_body_bytes)
    return {
        "static_resources": {
            "listeners": [_listener(front, said)],
            "clusters": [
                _cluster(GATEWAY, front.gateway),
                *(_keys(issuer, number, front.trusted) for number, issuer in enumerate(access.issuers)),
            ],
        }
    }


def _listener(front: Front, said: Json) -> Json:
    return {
        "name": "mcp",
        "address": front.listen.as_envoy,
        # A body that is to be judged must fit in.
        "per_connection_buffer_limit_bytes": front.most_body_bytes,
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": _manager(front, said),
                    }
                ]
            }
        ],
    }


def _manager(front: Front, said: Json) -> Json:
    kind = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    return {
        "@type": f"{TYPES}/{kind}",
        "stat_prefix": "mcp",
        # Nobody behind shall read a path otherwise than the filter does.
        "normalize_path": True,
        "merge_slashes": True,
        "path_with_escaped_slashes_action": "REJECT_REQUEST",
        "use_remote_address": True,
        "common_http_protocol_options": {"headers_with_underscores_action": "DROP_HEADER"},
        "request_headers_timeout": "10s",
        "request_timeout": "60s",
        # Streams may be silent for long: the gateway decides when they end.
        "stream_idle_timeout": "0s",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": GATEWAY, "timeout": "0s"}}],
                }
            ]
        },
        "http_filters": [wasm_filter(front.wasm, said), _router()],
    }


def wasm_filter(wasm: str, said: Json) -> Json:
    """An HTTP filter. A trap in it costs the request that it happens in, and then there is a new VM."""
    return {
        "name": "portico",
        "typed_config": {
            "@type": f"{TYPES}/envoy.extensions.filters.http.wasm.v3.Wasm",
            "config": {
                "name": "portico",
                "root_id": "portico",
                "failure_policy": "FAIL_RELOAD",
                "allow_on_headers_stop_iteration": True,
                "vm_config": {
                    "vm_id": "portico",
                    "runtime": "envoy.wasm.runtime.v8",
                    "code": {"local": {"filename": wasm}},
                },
                "configuration": {
                    "@type": f"{TYPES}/google.protobuf.StringValue",
                    "value": json.dumps(said),
                },
            },
        },
    }


def _router() -> Json:
    return {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": f"{TYPES}/envoy.extensions.filters.http.router.v3.Router"},
    }


def _cluster(name: str, address: Address) -> Json:
    endpoint = {"endpoint": {"address": address.as_envoy}}
    return {
        "name": name,
        "type": "STRICT_DNS",
        "connect_timeout": "2s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def _keys(issuer: Issuer, number: int, trusted: str) -> Json:
    parts = urlsplit(issuer.jwks_url or "")
    secure, host = parts.scheme == "https", parts.hostname or ""
    made = _cluster(source_of(issuer, number).cluster, Address(host, parts.port or (443 if secure else 80)))
    return made | {"transport_socket": _tls(host, trusted)} if secure else made


def _tls(host: str, trusted: str) -> Json:
    name = {"san_type": "DNS", "matcher": {"exact": host}}
    context = {
        "trusted_ca": {"filename": trusted},
        "match_typed_subject_alt_names": [name],
    }
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{TYPES}/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": host,
            "common_tls_context": {"validation_context": context},
        },
    }
