# A command run to its end by /v1/responses, streamed, with all of its tools
set -e
mkdir -p .codex
cat > .codex/config.toml <<TOML
model = "agent"
model_provider = "safelight"
[model_providers.safelight]
name = "Safelight"
base_url = "$AGENT/v1"
env_key = "KEY"
wire_api = "responses"
TOML
codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "Write the proof." | tee said.txt
grep -q "The command said: safelight" said.txt
test "$(cat proof.txt)" = safelight
