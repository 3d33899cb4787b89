package machine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// initScript loads the drivers, puts the agent into /run and starts systemd from the disk. The
// root is mounted read-only, which replays its journal; systemd checks and remounts it.
const initScript = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in /modules/*; do insmod $module || echo "init: cannot load $module"; done
for try in $(seq 100); do [ -b /dev/vda ] && break; sleep 0.1; done
mount -t ext4 -o ro /dev/vda /root || { echo "init: cannot mount the root"; sleep 5; poweroff -f; }
mount -t tmpfs -o mode=0755 tmpfs /run
cp -r /overlay/* /run/
umount /proc /sys
mount -o move /run /root/run
mount -o move /dev /root/dev
exec switch_root /root /sbin/init
`

// agentUnit starts the agent before any service, and stops it only when the machine is off:
// tests watch how the machine shuts down.
const agentUnit = `[Unit]
Description=Agent of the machine tests
DefaultDependencies=no
After=systemd-remount-fs.service

[Service]
ExecStart=/run/machine/agent
KillMode=process
OOMScoreAdjust=-1000
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
`

// journalConfig writes the journal to a virtio console, which is a file of the host.
const journalConfig = `[Journal]
ForwardToConsole=yes
TTYPath=/dev/hvc0
MaxLevelConsole=debug
RateLimitBurst=0
`

// maskedUnits are units that no test needs, and each of which costs the emulated processor up to some
// seconds at each boot. apparmor.service compiles profiles of programs that the tests do not run; the
// kernel's module is active without it.
var maskedUnits = []string{
	"apparmor.service",
	"dev-hugepages.mount", "dev-mqueue.mount", "sys-fs-fuse-connections.mount", "sys-kernel-config.mount",
	"sys-kernel-debug.mount", "sys-kernel-tracing.mount",
	"modprobe@configfs.service", "modprobe@dm_mod.service", "modprobe@drm.service", "modprobe@efi_pstore.service",
	"modprobe@fuse.service", "modprobe@loop.service",
	"getty.target", "kmod-static-nodes.service", "systemd-ask-password-console.path", "systemd-ask-password-wall.path",
	"systemd-fsckd.socket", "systemd-initctl.socket",
	"systemd-sysusers.service", "systemd-update-done.service", "systemd-journal-catalog-update.service",
	"proc-sys-fs-binfmt_misc.automount",
	"systemd-network-generator.service", "systemd-pstore.service", "systemd-random-seed.service",
	"systemd-update-utmp.service", "systemd-update-utmp-runlevel.service",
}

// maskedGenerators are generators of units that no machine of the tests has. Each of them would be
// started at each boot and at each reload of systemd.
var maskedGenerators = []string{
	"systemd-cryptsetup-generator", "systemd-debug-generator", "systemd-getty-generator", "systemd-gpt-auto-generator",
	"systemd-hibernate-resume-generator",
	"systemd-integritysetup-generator", "systemd-rc-local-generator", "systemd-run-generator",
	"systemd-system-update-generator", "systemd-sysv-generator",
	"systemd-veritysetup-generator",
}

// udevTrigger limits the devices for which udev runs its rules at a boot to those of virtio: the
// disks and the network. The others are ports, consoles and processors, by the hundred.
const udevTrigger = `[Service]
ExecStart=
ExecStart=udevadm trigger --action=add --subsystem-match=virtio --subsystem-match=block --subsystem-match=net
`

// writeInitrd writes an initial ramdisk with the agent and the image's modules.
func writeInitrd(path, agent string, image Image) error {
	a := &cpio{}
	for _, dir := range []string{"bin", "dev", "proc", "sys", "run", "root", "modules", "overlay", "overlay/machine",
		"overlay/systemd", "overlay/systemd/system",
		"overlay/systemd/system/sysinit.target.wants", "overlay/systemd/system-generators",
		"overlay/systemd/journald.conf.d"} {
		a.add(dir, modeDirectory|0o755, nil)
	}
	files := map[string]string{"bin/busybox": image.busybox(), "overlay/machine/agent": agent}
	modules, err := filepath.Glob(filepath.Join(image.Dir, "modules", "*.ko"))
	if err != nil || len(modules) == 0 {
		return fmt.Errorf("no kernel modules in %s: %v", image.Dir, err)
	}
	for _, m := range modules {
		files["modules/"+filepath.Base(m)] = m
	}
	for name, source := range files {
		data, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		a.add(name, modeFile|0o755, data)
	}
	const units = "overlay/systemd/system/"
	a.add("init", modeFile|0o755, []byte(initScript))
	a.add(units+"machine-agent.service", modeFile|0o644, []byte(agentUnit))
	a.add(units+"sysinit.target.wants/machine-agent.service", modeLink|0o777, []byte("../machine-agent.service"))
	for _, generator := range maskedGenerators {
		a.add("overlay/systemd/system-generators/"+generator, modeLink|0o777, []byte("/dev/null"))
	}
	a.add(units+"systemd-udev-trigger.service.d", modeDirectory|0o755, nil)
	a.add(units+"systemd-udev-trigger.service.d/machine.conf", modeFile|0o644, []byte(udevTrigger))
	for _, unit := range maskedUnits {
		a.add(units+unit, modeLink|0o777, []byte("/dev/null"))
	}
	a.add("overlay/systemd/journald.conf.d/machine.conf", modeFile|0o644, []byte(journalConfig))
	a.add("TRAILER!!!", 0, nil)
	return os.WriteFile(path, a.buf.Bytes(), 0o644)
}

// Types of files in an archive, as in a mode of the kernel.
const (
	modeDirectory = 0o040000
	modeFile      = 0o100000
	modeLink      = 0o120000
)

// cpio is an archive in the format that the kernel unpacks ("newc").
type cpio struct {
	buf   bytes.Buffer
	inode int
}

func (c *cpio) add(name string, mode int, data []byte) {
	c.inode++
	fmt.Fprintf(&c.buf, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		c.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
	c.buf.WriteString(name)
	c.buf.WriteByte(0)
	c.pad()
	c.buf.Write(data)
	c.pad()
}

// pad fills up to a multiple of four bytes.
func (c *cpio) pad() {
	for c.buf.Len()%4 != 0 {
		c.buf.WriteByte(0)
	}
}
