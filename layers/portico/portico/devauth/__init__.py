"""An authorization server for development and tests: everybody is who he says he is, and consents for himself.

It answers on loopback only, whoever runs it. No framework, and nothing of the gateway: `authz` looks at its tokens as at
anybody else's.
"""
