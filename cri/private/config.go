package private

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podstead/podstead/internal/statefile"
)

// Config locates the private containerd. All paths are absolute.
type Config struct {
	// Root keeps images and containers across reboots, for example
	// /var/lib/podstead/containerd. It also contains the log and the config.
	Root string
	// State is on a tmpfs, for example /run/podstead/containerd. It contains the
	// socket.
	State string
	// CNIConfDir is the host's directory of network configs. If it contains one,
	// that is used, else podstead writes its own under Root.
	CNIConfDir string
	// CNIBinDirs are where CNI plugins may be; the first match is used.
	CNIBinDirs []string
	// PauseImage is the sandbox image; empty leaves containerd's default.
	PauseImage string
	// PodCIDRs are the ranges of the pods' addresses in podstead's own network: at most one of
	// each family. Without any, podstead chooses an IPv4 range.
	PodCIDRs []netip.Prefix
	// SystemdCgroup lets systemd create the cgroups of containers. While containers of another
	// start run, the driver stays the one that they were created with.
	SystemdCgroup bool
	// Disk is where Root is.
	Disk statefile.Disk
}

// Socket returns the path of the containerd's socket.
func (c Config) Socket() string { return filepath.Join(c.State, "containerd.sock") }

// LogFile returns the path of the containerd's log.
func (c Config) LogFile() string { return filepath.Join(c.Root, "containerd.log") }

// CurrentLog returns the log that the containerd writes: that below State if the disk took no
// file.
func (c Config) CurrentLog() string {
	if _, err := os.Stat(c.LogFile()); err != nil {
		if _, err := os.Stat(c.stateLog()); err == nil {
			return c.stateLog()
		}
	}
	return c.LogFile()
}

func (c Config) stateLog() string { return filepath.Join(c.State, "containerd.log") }

func (c Config) rootFile() string   { return filepath.Join(c.Root, "config.toml") }
func (c Config) stateFile() string  { return filepath.Join(c.State, "config.toml") }
func (c Config) ownCNIConf() string { return filepath.Join(c.Root, "cni", "net.d") }

// file returns the config that writeConfig has written.
func (c Config) file() string {
	if _, err := os.Lstat(c.stateFile()); err == nil {
		return c.stateFile()
	}
	return c.rootFile()
}

// CertsDir returns the directory of the administrator's registry settings
// (hosts.toml by host).
func (c Config) CertsDir() string { return filepath.Join(c.Root, "certs.d") }

// configText is a version 2 config, which containerd 1.6, 1.7 and 2.x read.
// restrict_oom_score_adj lets pods start where the host withholds
// CAP_SYS_RESOURCE; the opt plugin's default directory is outside Root. sync_fs
// makes 1.7.26, 2.0 and later ones sync each layer that they unpack for a client of their diff service, which is every
// client but the transfer service with which 2.1 and later pull; others ignore it (package imagestore syncs for them).
// CDI is disabled by
// default up to containerd 1.7, and 1.6 ignores the setting; the specifications are in /etc/cdi and
// /var/run/cdi. A containerd that
// starts kills the containers of each shim that does not respond in time, by default 5 s,
// which is not enough on a busy host. It is not
// a text/template: importing that alone keeps every method of every type in the
// binary.
const configText = `# Written by podstead at each start; changes are lost. Put registry settings into %[9]s.
version = 2
root = %[1]q
state = %[2]q

[grpc]
  address = %[3]q

[timeouts]
  "io.containerd.timeout.shim.load" = "1m"

[plugins."io.containerd.internal.v1.opt"]
  path = %[4]q

[plugins."io.containerd.service.v1.diff-service"]
  sync_fs = true

[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  restrict_oom_score_adj = %[5]t
  enable_cdi = true
%[6]s
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[7]q
    conf_dir = %[8]q

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = %[10]q
`

// systemdText makes systemd the cgroup driver.
const systemdText = `
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      ` + systemdOption + `
`

const systemdOption = "SystemdCgroup = true"

// render returns the text of the config file.
func (c Config) render(binDir, confDir string, restrictOOM, systemd bool) []byte {
	pause := ""
	if c.PauseImage != "" {
		pause = fmt.Sprintf("  sandbox_image = %q\n", c.PauseImage)
	}
	text := fmt.Appendf(nil, configText, filepath.Join(c.Root, "root"), filepath.Join(c.State, "state"), c.Socket(),
		filepath.Join(c.Root, "opt"), restrictOOM, pause, binDir, confDir, c.CertsDir(), c.registryLink())
	if systemd {
		text = append(text, systemdText...)
	}
	return text
}

// systemd reports whether systemd is the cgroup driver. Containers that run keep their cgroups, so
// that the driver changes only when none does: a pod's new containers are in the cgroup of its
// others. That is the case after a reboot.
func (c Config) systemd() bool {
	tasks, err := filepath.Glob(filepath.Join(c.State, "state", "io.containerd.runtime.v2.task", "*", "*"))
	if err != nil || len(tasks) == 0 {
		return c.SystemdCgroup
	}
	text, err := os.ReadFile(c.file())
	return err == nil && bytes.Contains(text, []byte(systemdOption))
}

// prepare creates the directories, chooses the network and writes the config.
func (c Config) prepare() error {
	// containerd creates its root and state itself, with mode 0711, so that
	// containers with user namespaces can traverse them; the parent directories
	// must allow that too.
	for _, dir := range []string{c.Root, c.State} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("failed to create a directory of the private containerd: %w", err)
		}
	}
	// It is empty unless the administrator puts settings into it.
	c.Disk.Unwritten.Report(c.CertsDir(), os.MkdirAll(c.CertsDir(), 0o711))
	bin, err := c.cniBin()
	if err != nil {
		return err
	}
	conf, err := c.cniConf(bin)
	if err != nil {
		return err
	}
	if err := c.removeMirror(); err != nil {
		return err
	}
	return c.writeConfig(c.render(bin, conf, !capable(capSysResource), c.systemd()))
}

// writeConfig writes the config below Root, for the administrator to read, or below
// State if the disk takes no file.
func (c Config) writeConfig(text []byte) error {
	// A config of an earlier start below State would be used instead.
	_ = os.Remove(c.stateFile())
	err := c.replaceFile(c.rootFile(), text, 0o600)
	c.Disk.Unwritten.Report(c.rootFile(), err)
	if err == nil {
		return nil
	}
	return c.replaceFile(c.stateFile(), text, 0o600)
}

// checkDisk returns why containerd cannot write below Root, nil if it can.
func (c Config) checkDisk() (err error) {
	path := filepath.Join(c.Root, "write-test")
	defer func() { _ = os.Remove(path) }()
	return os.WriteFile(path, make([]byte, 4096), 0o600)
}

// openLog opens the log below Root, or below State if the disk takes no file.
func (c Config) openLog() (*os.File, error) {
	const flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	f, err := os.OpenFile(c.LogFile(), flags, 0o600)
	if err != nil {
		f, err = os.OpenFile(c.stateLog(), flags, 0o600)
	}
	return f, err
}

// capSysResource is CAP_SYS_RESOURCE of linux/capability.h.
const capSysResource = 24

// capable reports whether this process, and so a child of it, has the capability.
// If that cannot be read the result is false, the safe one here.
func capable(capability uint) bool {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "CapEff:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
			return err == nil && mask&(1<<capability) != 0
		}
	}
	return false
}

// replaceFile replaces a file whose content differs.
func (c Config) replaceFile(path string, data []byte, mode os.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := c.Disk.Replace(path, data, mode, statefile.Atomic); err != nil {
		return fmt.Errorf("failed to write %s: %w", path, err)
	}
	return nil
}
