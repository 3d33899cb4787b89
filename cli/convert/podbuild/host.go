package podbuild

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/report"
)

// Host is what a conversion may find out about the machine on which it runs.
type Host struct {
	// ReadFile returns the content of a file of a bounded size.
	ReadFile func(path string) ([]byte, error)
	// Mode returns the mode of a file, and whether it exists.
	Mode func(path string) (fs.FileMode, bool)
	// LookupEnv returns a variable of the environment.
	LookupEnv func(name string) (string, bool)
	// Dir is the directory of an input without a path, and Home is that of the user.
	Dir, Home string
}

// BaseDir returns the absolute directory of a file.
func (h *Host) BaseDir(file string) string {
	if file == "-" {
		return h.Dir
	}
	return filepath.Dir(h.Path(h.Dir, file))
}

// Path returns an absolute path for one that is relative to a directory or to the home of the user.
func (h *Host) Path(dir, path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		path = h.Home + rest
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path)
}

// Bind is a path of the host that is mounted into a container.
type Bind struct {
	Path, Target string
	ReadOnly     bool
	// Create creates a directory that does not exist.
	Create bool
	// Propagation is private, slave or shared, or one of these after an r; empty is private.
	Propagation string
}

// AddBind mounts a path of the host.
func (b *Builder) AddBind(c *v1.Container, f report.Field, host *Host, bind Bind) {
	mode, exists := host.Mode(bind.Path)
	kind := v1.HostPathDirectory
	switch {
	case exists && mode.IsRegular():
		kind = v1.HostPathFile
	case exists && mode&fs.ModeSocket != 0:
		kind = v1.HostPathSocket
	case exists && mode&fs.ModeCharDevice != 0:
		b.AddDevice(c, f, docker.Device{Host: bind.Path, Container: bind.Target})
		return
	case exists && !mode.IsDir():
		kind = v1.HostPathUnset
	case bind.Create:
		kind = v1.HostPathDirectoryOrCreate
		if !exists {
			b.Report.Note(f, bind.Path+" does not exist on this machine; a directory is created there",
				"create it before, or set hostPath.type: File if it is a file")
		}
	}
	source := &v1.HostPathVolumeSource{Path: bind.Path}
	if kind != v1.HostPathUnset {
		source.Type = &kind
	}
	hint := filepath.Base(bind.Path)
	if hint == "/" {
		hint = "root"
	}
	mount := v1.VolumeMount{Name: b.AddVolume(hint, v1.VolumeSource{HostPath: source}), MountPath: bind.Target,
		ReadOnly: bind.ReadOnly}
	switch strings.TrimPrefix(bind.Propagation, "r") {
	case "shared":
		propagation := v1.MountPropagationBidirectional
		mount.MountPropagation = &propagation
	case "slave":
		propagation := v1.MountPropagationHostToContainer
		mount.MountPropagation = &propagation
	}
	c.VolumeMounts = append(c.VolumeMounts, mount)
}

// ApplyOptions applies the options of SOURCE:TARGET:OPTIONS to a bind.
func (b *Builder) ApplyOptions(f report.Field, bind *Bind, options []string) {
	for _, option := range options {
		switch {
		case option == "ro" || option == "readonly":
			bind.ReadOnly = true
		case slices.Contains([]string{"rw", "cached", "delegated", "consistent", "rbind", "bind", "copy", "nocopy", "exec",
			"dev", "suid", ""}, option):
		case slices.Contains([]string{"shared", "rshared", "slave", "rslave", "private", "rprivate"}, option):
			bind.Propagation = option
		case option == "z" || option == "Z":
			if bind.Path == "" {
				continue // a volume of podstead
			}
			b.Report.Note(f, "podstead does not change the SELinux label of a path of the host",
				"run chcon -Rt container_file_t on it, where SELinux is on")
		default:
			b.Report.Lost(f, "the mount option "+option+" has no counterpart in a pod", "")
		}
	}
}
