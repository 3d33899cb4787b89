package preflight

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// defaultContainerdConfig is the configuration file of a containerd that was started without --config.
const defaultContainerdConfig = "/etc/containerd/config.toml"

// containerdConfig is the configuration file of containerd.
type containerdConfig struct{ path, text string }

func (h *Host) containerdConfig(r *Runtime) containerdConfig {
	path := r.ConfigFile
	if path == "" {
		path = defaultContainerdConfig
	}
	return containerdConfig{path, h.text(path)}
}

var configVersion = regexp.MustCompile(`(?m)^version\s*=\s*(\d+)`)

// plugin returns the name of the CRI plugin, which depends on the version of the file. header is what a new file
// begins with, with the escapes of printf.
func (c containerdConfig) plugin() (name, header string) {
	if c.text == "" {
		return "io.containerd.grpc.v1.cri", `version = 2\n` // every containerd since 1.3 reads it
	}
	version := 1
	if m := configVersion.FindStringSubmatch(c.text); m != nil {
		version, _ = strconv.Atoi(m[1])
	}
	switch version {
	case 1:
		return "cri", ""
	case 2:
		return "io.containerd.grpc.v1.cri", ""
	}
	return "io.containerd.cri.v1.runtime", ""
}

// set returns the command that sets a key of the CRI plugin: where the file has the key, below the header of the
// plugin's table, or in a new table at the end.
func (c containerdConfig) set(key, value string) string {
	if regexp.MustCompile(`(?m)^\s*` + key + `\s*=`).MatchString(c.text) {
		return fmt.Sprintf("sed -i 's/%[1]s *=.*/%[1]s = %[2]s/' %[3]s", key, value, c.path)
	}
	plugin, header := c.plugin()
	// With whichever quotes the file has.
	if regexp.MustCompile(`\[plugins\.["']?` + regexp.QuoteMeta(plugin) + `["']?\]`).MatchString(c.text) {
		return fmt.Sprintf(`sed -i '/\[plugins\..\?%s.\?\]/a %s = %s' %s`, plugin, key, value, c.path)
	}
	return c.appended(fmt.Sprintf(`%s[plugins."%s"]\n%s = %s\n`, header, plugin, key, value))
}

// appended returns the command that appends lines, with the escapes of printf.
func (c containerdConfig) appended(lines string) string {
	if c.text == "" {
		return fmt.Sprintf("mkdir -p %s && printf '%s' >>%s", filepath.Dir(c.path), lines, c.path)
	}
	return fmt.Sprintf(`printf '\n%s' >>%s`, lines, c.path) // the last line may not have ended
}

// setCgroupDriver returns the command that sets SystemdCgroup: where the file has the setting, else in an appended
// table. done is false if that table could be a duplicate: then it says what to change.
func (c containerdConfig) setCgroupDriver(systemd bool) (edit string, done bool) {
	const key = "SystemdCgroup"
	if regexp.MustCompile(`(?m)^\s*` + key + `\s*=`).MatchString(c.text) {
		return c.set(key, strconv.FormatBool(systemd)), true
	}
	plugin, header := c.plugin()
	if plugin == "cri" || strings.Contains(c.text, "containerd.runtimes") {
		return fmt.Sprintf("%s = %t in the runc options of %s", key, systemd, c.path), false
	}
	table := fmt.Sprintf(`[plugins."%s".containerd.runtimes.runc`, plugin)
	return c.appended(fmt.Sprintf(`%s%s]\nruntime_type = "io.containerd.runc.v2"\n%s.options]\n%s = %t\n`, header, table,
		table, key, systemd)), true
}

// restart returns what follows the command of an edit: the command that restarts containerd, or a note where systemd
// does not run it.
func (h *Host) restart(r *Runtime) string {
	switch {
	case h.exists("run/systemd/system"):
		return " && systemctl restart containerd"
	case r.PID != 0:
		return fmt.Sprintf("  (then restart containerd, which is process %d)", r.PID)
	}
	return "  (then restart containerd)"
}
