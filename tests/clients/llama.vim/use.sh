# A gap filled at the cursor in Neovim by /infill, shown, and accepted by Tab
set -e
git clone -q --depth 1 https://github.com/ggml-org/llama.vim
printf '# Say «number / 2».\ndef half(number):\n    return \n\nprint(half(4))\n' > half.py
cat > setup.lua <<'END'
vim.g.llama_config = { endpoint_fim = vim.env.AGENT .. "/infill", api_key = vim.env.KEY, auto_fim = false, ring_update_ms = 100 }
vim.opt.runtimepath:append("llama.vim")
END
nvim --headless -u setup.lua --listen ./editor.sock half.py < /dev/null > /dev/null 2>&1 &
editor=$!
trap 'kill $editor' EXIT
ask() { timeout 5 nvim --server ./editor.sock --remote-expr "$1" 2> /dev/null; }
for _ in $(seq 50); do test -S ./editor.sock && break; sleep 0.1; done
timeout 5 nvim --server ./editor.sock --remote-send '3GA'
for _ in $(seq 100); do
  ask 'execute("call llama#fim(-1, -1, v:false, [], v:true)")' > /dev/null || true
  sleep 0.2
  test "$(ask 'llama#is_fim_hint_shown()')" = true && break
done
timeout 5 nvim --server ./editor.sock --remote-send '<Tab><Esc>:w<CR>'
sleep 0.5
cat half.py
grep -qx '    return number / 2' half.py
test "$(python3 half.py)" = 2.0
