#!/usr/bin/env bash
# Builds the disk image and the kernel of the machine tests in a directory:
#
#   test/machine/image.sh DIRECTORY ARCHITECTURE
#
# ARCHITECTURE is one of Debian's: amd64 or arm64. The programs of one that is not the host's run under
# QEMU's user emulation while the root is built.
#
# root.ext4  Debian's minimal base and the packages of `packages`, as a raw, sparse image. It
#            contains no test code; the tests add that in the initial ramdisk
# vmlinuz    Debian's kernel for virtual machines
# busybox    a static busybox for the initial ramdisk
# modules/   the kernel modules that the initial ramdisk needs to mount the root, numbered in
#            the order in which they are loaded
# versions   the version of each package
#
# test/setup.sh names the directory after the content of this file and of `packages`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$1
arch=$2
suite=bookworm
size=6G # apparent; about 600 MB are used

fail() { echo "image: $*" >&2; exit 1; }
run() { "$@" >>"$tmp/log" 2>&1 || { tail -n 30 "$tmp/log" >&2; fail "failed: $*"; }; }

mkdir -p "$(dirname "$out")"
tmp=$(mktemp -d "$(dirname "$out")/machine.XXXXXX")
emulation=
cleanup() {
	[ -z "$emulation" ] || echo -1 >"/proc/sys/fs/binfmt_misc/$emulation"
	rm -rf "$tmp"
}
trap cleanup EXIT
chmod 755 "$tmp"
mkdir "$tmp/out" "$tmp/out/modules" "$tmp/kernel"

# The sources of this host, so that its mirrors are used.
sources() {
	apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
		awk -v s="$suite" '($1 == s || $1 == s "-security" || $1 == s "-updates") && !seen[$0]++ { print "deb [trusted=yes]", $2, $1, "main" }'
}
[ -n "$(sources)" ] || fail "no mirror of Debian $suite found in the apt sources"
sources >"$tmp/sources"

# The kernel starts programs of another architecture with QEMU, unless that is set up already.
emulate() {
	local name=qemu-$1
	[ -e /proc/sys/fs/binfmt_misc/register ] || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
	[ ! -e "/proc/sys/fs/binfmt_misc/$name" ] || return 0
	cat "/usr/lib/binfmt.d/$name.conf" >/proc/sys/fs/binfmt_misc/register
	emulation=$name
}
if [ "$arch" != "$(dpkg --print-architecture)" ]; then
	[ "$arch" = arm64 ] || fail "architecture $arch is not supported; use amd64 or arm64"
	emulate aarch64
fi

run mmdebstrap --mode=root --variant=minbase --format=directory --architectures="$arch" --skip=cleanup/apt/lists \
	--include="$(grep -v '^#' "$here/packages" | paste -sd,)" "$suite" "$tmp/root" "$tmp/sources"

# The root's own apt knows the packages of its architecture.
(cd "$tmp/root/tmp" && kernel=$(chroot "$tmp/root" apt-cache depends --important "linux-image-cloud-$arch" | awk '$1 == "Depends:" { print $2; exit }') &&
	chroot "$tmp/root" sh -c "cd /tmp && apt-get -o APT::Sandbox::User=root download '$kernel' busybox-static" && for deb in ./*.deb; do dpkg-deb -x "$deb" "$tmp/kernel"; done && rm -- *.deb) >>"$tmp/log" 2>&1 ||
	{ tail -n 30 "$tmp/log" >&2; fail "failed to download Debian's kernel"; }
mv "$(find "$tmp/kernel" -type f -name busybox -perm -100)" "$tmp/out/busybox"
release=$(basename "$tmp"/kernel/lib/modules/*)
mv "$tmp/kernel/boot/vmlinuz-$release" "$tmp/out/vmlinuz"
mv "$tmp/kernel/boot/config-$release" "$tmp/root/boot/"
mkdir -p "$tmp/root/usr/lib/modules"
mv "$tmp/kernel/lib/modules/$release" "$tmp/root/usr/lib/modules/"
run chroot "$tmp/root" depmod "$release"
number=10
for module in virtio_pci virtio_blk virtio_console ext4; do
	for file in $(chroot "$tmp/root" modprobe -S "$release" --show-depends "$module" | awk '$1 == "insmod" { print $2 }'); do
		[ -z "$(find "$tmp/out/modules" -name "*-$(basename "$file")")" ] || continue
		cp "$tmp/root$file" "$tmp/out/modules/$number-$(basename "$file")"
		number=$((number + 1))
	done
done

chroot "$tmp/root" dpkg-query -W -f '${Package} ${Version}\n' >"$tmp/out/versions"
echo "kernel $release" >>"$tmp/out/versions"

root=$tmp/root
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/*
echo machine >"$root/etc/hostname"
echo "127.0.0.1 localhost machine" >"$root/etc/hosts"
echo "/dev/vda / ext4 defaults 0 1" >"$root/etc/fstab"
# systemd generates a machine ID at the first boot; with it the presets would run again.
chroot "$root" systemd-machine-id-setup >>"$tmp/log" 2>&1
mkdir -p "$root/var/log/journal"
# A wired network with an address, as an installer sets it up.
printf '[Match]\nName=en* eth*\n[Network]\nDHCP=yes\n' >"$root/etc/systemd/network/wired.network"
chroot "$root" systemctl enable systemd-networkd >>"$tmp/log" 2>&1
rm -f "$root/etc/resolv.conf" && echo "nameserver 10.0.2.3" >"$root/etc/resolv.conf"
# Timers would take the processor at times that no test expects.
chroot "$root" systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer man-db.timer logrotate.timer \
	systemd-tmpfiles-clean.timer e2scrub_reap.service >>"$tmp/log" 2>&1
# The index of the manual pages would be built at each installation.
rm -f "$root/var/lib/man-db/auto-update"

truncate -s "$size" "$tmp/out/root.ext4"
run mke2fs -q -F -t ext4 -d "$root" "$tmp/out/root.ext4"
rm -rf "$out"
mv "$tmp/out" "$out"
