#!/bin/sh
# Adds Safelight to this user's menu, from where this folder lies; --uninstall takes it out again.
# Copies no program: the folder must stay where it is. Settings and conversations are never touched.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd -P)
data=${XDG_DATA_HOME:-$HOME/.local/share}
entry=$data/applications/safelight.desktop
link=$HOME/.local/bin/safelight

case ${1-} in
'') ;;
--uninstall)
    rm -f "$entry" "$data/metainfo/app.safelight.safelight.metainfo.xml"
    rm -f "$data"/icons/hicolor/*/apps/safelight.png "$data/icons/hicolor/scalable/apps/safelight.svg"
    if [ -L "$link" ]; then rm -f "$link"; fi
    echo "Safelight is out of the menu. To remove it altogether, delete $here"
    exit 0
    ;;
*)
    echo "usage: install.sh [--uninstall]" >&2
    exit 2
    ;;
esac

if [ ! -x "$here/safelight" ]; then
    echo "install.sh: $here/safelight is not there; run the install.sh inside the bundle" >&2
    exit 1
fi
mkdir -p "$data/applications" "$data/icons" "$data/metainfo" "$HOME/.local/bin"
cp -R "$here/share/icons/hicolor" "$data/icons/"
cp "$here/share/metainfo/app.safelight.safelight.metainfo.xml" "$data/metainfo/"
# A path in Exec stands in quotes, with these four signs escaped, once for the quotes and once for the file; % doubled.
path=$(printf '%s' "$here/safelight" | sed -e 's/\\/\\\\\\\\/g' -e 's/["`$]/\\\\&/g' -e 's/%/%%/g')
awk -v path="$(printf '%s' "$path" | sed 's/\\/\\\\/g')" \
    '/^Exec=/ { print "Exec=\"" path "\""; next } { print }' "$here/share/applications/safelight.desktop" >"$entry"
if [ -e "$link" ] && [ ! -L "$link" ]; then
    echo "install.sh: $link is another program and stays as it is" >&2
else
    ln -sfn "$here/safelight" "$link"
fi
echo "Safelight is in the menu, and in a terminal it is: safelight"
