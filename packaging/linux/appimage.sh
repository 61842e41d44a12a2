#!/bin/sh
# Packs dist/safelight into one file that starts by a double-click: appimage.sh BUNDLE OUT.AppImage
# Needs appimagetool. The folder is tested; what appimagetool makes of it is untested. A bundle with CUDA becomes 2 GB.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd -P)
if [ $# -ne 2 ] || [ ! -x "$1/safelight" ]; then
    echo "usage: appimage.sh BUNDLE OUT.AppImage, with the folder that packaging/build.py made" >&2
    exit 2
fi
if ! command -v appimagetool >/dev/null; then
    echo "appimage.sh: appimagetool is not there; it is one file, from the AppImage project" >&2
    exit 1
fi
bundle=$(CDPATH= cd -- "$1" && pwd -P)
work=$(mktemp -d "$(dirname -- "$2")/.appimage-XXXXXX")
trap 'rm -rf "$work"' EXIT
app=$work/Safelight.AppDir
mkdir -p "$app/usr/lib" "$app/usr/share"
# Hard links where the file system has them: the bundle is gigabytes, and is not changed.
cp -al "$bundle" "$app/usr/lib/safelight" 2>/dev/null || cp -a "$bundle" "$app/usr/lib/safelight"
cp -R "$bundle/share/icons" "$bundle/share/metainfo" "$app/usr/share/"
cp "$here/safelight.desktop" "$app/"
cp "$bundle/share/icons/hicolor/256x256/apps/safelight.png" "$app/"
cat >"$app/AppRun" <<'RUN'
#!/bin/sh
exec "$(dirname -- "$(readlink -f -- "$0")")/usr/lib/safelight/safelight" "$@"
RUN
chmod +x "$app/AppRun"
ARCH=x86_64 appimagetool --comp zstd "$app" "$2"
