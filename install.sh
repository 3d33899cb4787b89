#!/bin/sh
# Installs podstead on a Linux system without deb or rpm packages, upgrades it, or removes it.
#
#   sh install.sh                        the latest release
#   sh install.sh --version v0.1.0       a certain release
#   sh install.sh --from URL|DIRECTORY   a release at another place, such as a copy without network
#   sh install.sh --uninstall            removes the program, its unit and manual pages
#
# Nothing is installed unless the archive has the checksum in SHA256SUMS. An upgrade replaces
# the program in one step and restarts the daemon; the containers keep running.
set -eu

releases=https://github.com/podstead/podstead/releases
from=
prefix=/usr/local
root=${DESTDIR:-}
action=install

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

while [ $# -gt 0 ]; do
	case "$1" in
	--from) from=${2:?"install.sh: --from needs a URL or a directory"} && shift ;;
	--version) from=$releases/download/${2:?"install.sh: --version needs a version, such as v0.1.0"} && shift ;;
	--prefix) prefix=${2:?"install.sh: --prefix needs a directory"} && shift ;;
	--uninstall) action=uninstall ;;
	-h | --help)
		sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0"
		exit 0
		;;
	*) fail "unknown option $1; see install.sh --help" ;;
	esac
	shift
done
from=${from:-$releases/latest/download}
unit=$root/etc/systemd/system/podstead.service

[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail "must run as root; use sudo"
[ ! -e "$root/usr/bin/podstead" ] || [ "$prefix" = /usr ] ||
	fail "podstead is installed as a package (/usr/bin/podstead); upgrade or remove it with apt or dnf"

# needs TOOL... fails if one of the tools is not installed.
needs() {
	missing=
	for tool in "$@"; do
		command -v "$tool" >/dev/null || missing="$missing $tool"
	done
	[ -z "$missing" ] || fail "needs$missing; install it first"
}

# systemd is true if this system runs it, and is not only a directory.
systemd() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

if [ $action = uninstall ]; then
	if systemd; then
		systemctl disable --now podstead.service 2>/dev/null || true
	fi
	rm -f "$root$prefix/bin/podstead" "$unit" "$root$prefix"/share/man/man1/podstead*.1.gz \
		"$root$prefix/share/bash-completion/completions/podstead" "$root$prefix/share/zsh/site-functions/_podstead" \
		"$root$prefix/share/fish/vendor_completions.d/podstead.fish"
	rm -rf "$root$prefix/share/doc/podstead"
	if systemd; then
		systemctl daemon-reload
	fi
	echo "podstead is removed. Its pods keep running; /etc/pods, /etc/podstead and /var/lib/podstead stay."
	mounted=
	for dir in /var/lib/podstead/pods /var/lib/podstead/plugins; do
		if grep -qs " $dir " /proc/self/mounts; then mounted="$mounted $dir"; fi
	done
	if [ -z "$root" ] && [ -n "$mounted" ]; then
		echo "Before you remove /var/lib/podstead, end its pods, and run: umount$mounted"
	fi
	exit 0
fi

case "$(uname -m)" in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
armv7* | armv8l) arch=armv7 ;;
riscv64) arch=riscv64 ;;
*) fail "there is no podstead for $(uname -m); build it with: make build" ;;
esac
arch=${PODSTEAD_ARCH:-$arch}

needs tar gzip sha256sum
case "$from" in
http://* | https://*) command -v curl >/dev/null || command -v wget >/dev/null || fail "needs curl or wget, or --from DIRECTORY; install one first" ;;
esac
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# get NAME fetches a file of the release.
get() {
	case "$from" in
	http://* | https://*)
		if command -v curl >/dev/null; then
			curl -fsSL --retry 3 -o "$tmp/$1" "$from/$1"
		else
			wget -q -O "$tmp/$1" "$from/$1"
		fi || fail "failed to download $from/$1"
		;;
	*) cp "${from#file://}/$1" "$tmp/$1" || fail "failed to read $from/$1" ;;
	esac
}

get SHA256SUMS
archive=$(sed -n "s/^[0-9a-f]\{64\}  \(podstead_[^/]*_linux_$arch\.tar\.gz\)\$/\1/p" "$tmp/SHA256SUMS")
case "$archive" in
'') fail "$from has no archive for $arch" ;;
*'
'*) fail "$from/SHA256SUMS names several archives for $arch" ;;
esac
get "$archive"
(cd "$tmp" && grep "  $archive\$" SHA256SUMS | sha256sum -c - >/dev/null 2>&1) ||
	fail "the checksum of $archive is not the one in SHA256SUMS: nothing was installed"
mkdir "$tmp/unpacked"
tar -xzf "$tmp/$archive" -C "$tmp/unpacked" --strip-components 1 || fail "failed to unpack $archive: nothing was installed"
[ -x "$tmp/unpacked/podstead" ] || fail "$archive has no program: nothing was installed"

# put SOURCE TARGET MODE replaces a file in one step, so that a power cut leaves the old or the new one.
put() {
	mkdir -p "$(dirname "$root$2")"
	cp "$tmp/unpacked/$1" "$root$2.new.$$"
	chmod "$3" "$root$2.new.$$"
	sync "$root$2.new.$$" 2>/dev/null || sync
	mv -f "$root$2.new.$$" "$root$2"
}

upgrade=false
[ ! -e "$root$prefix/bin/podstead" ] || upgrade=true
sed "s|^ExecStart=/usr/local/bin/podstead |ExecStart=$prefix/bin/podstead |" "$tmp/unpacked/podstead.service" >"$tmp/unpacked/unit"
put podstead "$prefix/bin/podstead" 0755
put unit /etc/systemd/system/podstead.service 0644
mkdir -p "$root/etc/pods"
[ -e "$root/etc/podstead/config.yaml" ] || put config.yaml /etc/podstead/config.yaml 0644
put completions/bash/podstead "$prefix/share/bash-completion/completions/podstead" 0644
put completions/zsh/_podstead "$prefix/share/zsh/site-functions/_podstead" 0644
put completions/fish/podstead.fish "$prefix/share/fish/vendor_completions.d/podstead.fish" 0644
for page in "$tmp"/unpacked/man/*.1.gz; do
	put "man/${page##*/}" "$prefix/share/man/man1/${page##*/}" 0644
done
mkdir -p "$root$prefix/share/doc/podstead"
for part in README.md LICENSE CHANGELOG.md SECURITY.md docs examples licenses; do
	[ ! -e "$tmp/unpacked/$part" ] || cp -R "$tmp/unpacked/$part" "$root$prefix/share/doc/podstead/"
done

if systemd; then
	systemctl daemon-reload
	if $upgrade; then
		systemctl try-restart podstead.service
	else
		systemctl enable --now podstead.service
	fi
fi
echo "installed $root$prefix/bin/podstead from $archive"
if [ -z "$root" ] && ! systemd; then
	echo "This system does not run systemd. Let its init system run, as root: $prefix/bin/podstead run"
	if $upgrade; then
		echo "Restart that now; the containers keep running."
	fi
fi
$upgrade || echo "Put manifests into /etc/pods. podstead check tells what this host lacks."
