"""What clients may know of the server before they use it (RFC 8414, and OpenID Connect Discovery). Pure."""

from typing import Any, Final

from portico.devauth.model import ALGORITHM, GRANTS, METHODS, OFFLINE, Terms

ROOT: Final = "/oauth"
JWKS: Final = f"{ROOT}/jwks"
METADATA: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
"""The second for clients that know no other: it gives no id tokens."""


def document(terms: Terms) -> dict[str, Any]:
    at = f"{terms.issuer}{ROOT}"
    return {
        "issuer": terms.issuer,
        "authorization_endpoint": f"{at}/authorize",
        "token_endpoint": f"{at}/token",
        "registration_endpoint": f"{at}/register",
        "revocation_endpoint": f"{at}/revoke",
        "jwks_uri": f"{terms.issuer}{JWKS}",
        "scopes_supported": [*terms.scopes, OFFLINE],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(GRANTS),
        "token_endpoint_auth_methods_supported": list(METHODS),
        "revocation_endpoint_auth_methods_supported": list(METHODS),
        "code_challenge_methods_supported": ["S256"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }
