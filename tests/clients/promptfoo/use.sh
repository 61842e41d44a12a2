# Chat and Responses with its own max_tokens of 1024, a schema, completions
set -e
export PROMPTFOO_DISABLE_TELEMETRY=1 PROMPTFOO_DISABLE_UPDATE=1 PROMPTFOO_DISABLE_REMOTE_GENERATION=1
export PROMPTFOO_CONFIG_DIR="$PWD"
cd "$(dirname "$0")" # its providers are resolved from there
promptfoo eval --no-cache --no-progress-bar --no-write --no-table -c promptfooconfig.yaml -o "$PROMPTFOO_CONFIG_DIR/said.json"
