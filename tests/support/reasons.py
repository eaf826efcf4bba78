"""Why a test is about `portico serve` alone: what `@pytest.mark.serve_only` says, where more than one says it."""

ITS_FILE = "a deployment's portico.yaml changes by deploying anew"
ITS_STORE = "the test breaks the store's own file"
SEVERAL = "several gateways share a store; a deployment is many processes in every test"
HANGS_UP = "Lambda tells no function that its client has hung up"
NO_STREAM = "a deployment looks at backends on a schedule, and holds no stream to them between requests"
STOPPED = "a deployment is never told to stop"
