"""The token says what to answer: allow, deny, nothing, nested, raise, anything else."""

calls = []


def handler(event, context):
    calls.append(event["methodArn"])
    token = event["headers"]["Authorization"]
    if token == "unknown":
        raise Exception("Unauthorized")
    if token == "raise":
        raise Exception("a fault")
    answer = {
        "principalId": "user",
        "policyDocument": {"Version": "2012-10-17", "Statement": statements(token, event["methodArn"])},
        "context": {
            "calls": len(calls),
            "sure": True,
            "challenge": 'Bearer error="insufficient_scope"',
            "reason": token,
        },
    }
    if token == "nested":
        answer["context"]["more"] = {"a": 1}
    if token == "nobody":
        del answer["principalId"]
    return answer


def statements(token, arn):
    allow = {"Action": "execute-api:Invoke", "Effect": "Allow", "Resource": arn}
    if token.startswith("allow-all"):
        return [allow | {"Resource": arn.split("/")[0] + "/*"}]
    if token == "deny":
        return [allow, allow | {"Effect": "Deny"}]
    return [allow | {"Resource": arn + "-other"}] if token == "elsewhere" else [allow]
