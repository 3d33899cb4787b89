package volume

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// selinuxDir and selinuxfs are where an SELinux host has its configuration, and what exists if SELinux is enabled.
const (
	selinuxDir = "/etc/selinux"
	selinuxfs  = "/sys/fs/selinux/enforce"
)

// validLevel excludes what would end the mount option.
var validLevel = regexp.MustCompile(`^[A-Za-z0-9:,._-]+$`)

// contextOption returns the mount option that gives all files of a volume the SELinux label of the pod's
// containers, so that the runtime need not label them one by one; empty if there is none. As at the kubelet it is
// for a volume of one pod only: others could need another label.
func (s *setup) contextOption(volume string, persistent *v1.PersistentVolume) string {
	modes := persistent.Spec.AccessModes
	if len(modes) != 1 || modes[0] != v1.ReadWriteOncePod {
		return ""
	}
	if slices.ContainsFunc(persistent.Spec.MountOptions, func(o string) bool { return strings.HasPrefix(o, "context=") }) {
		return ""
	}
	level := levelOf(s.req.Pod, volume)
	if level == "" {
		return ""
	}
	file := s.fileLabel
	if file == nil {
		file = hostFileLabel
	}
	label := withLevel(file(), level)
	if label == "" {
		return ""
	}
	return `context="` + label + `"`
}

// levelOf returns the SELinux level of the containers that mount a volume; empty if they have none, or several. The
// other parts of the options are those of processes.
func levelOf(pod *v1.Pod, volume string) (level string) {
	policy := v1.SELinuxChangePolicyMountOption
	var ofPod *v1.SELinuxOptions
	if sc := pod.Spec.SecurityContext; sc != nil {
		ofPod = sc.SELinuxOptions
		if sc.SELinuxChangePolicy != nil {
			policy = *sc.SELinuxChangePolicy
		}
	}
	if policy != v1.SELinuxChangePolicyMountOption {
		return ""
	}
	first := true
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		if !mountsVolume(c, volume) {
			continue
		}
		options := ofPod
		if c.SecurityContext != nil && c.SecurityContext.SELinuxOptions != nil {
			options = c.SecurityContext.SELinuxOptions
		}
		own := ""
		if options != nil && validLevel.MatchString(options.Level) {
			own = options.Level
		}
		if own == "" || !first && own != level {
			return ""
		}
		level, first = own, false
	}
	return level
}

// withLevel replaces the level of a label user:role:type:level; empty if it is none.
func withLevel(label, level string) string {
	parts := strings.SplitN(label, ":", 4)
	if len(parts) < 3 {
		return ""
	}
	return strings.Join(parts[:3], ":") + ":" + level
}

// hostFileLabel returns the label that the policy of the host has for files of containers; empty without SELinux.
func hostFileLabel() string {
	if _, err := os.Stat(selinuxfs); err != nil {
		return ""
	}
	return fileLabelIn(selinuxDir)
}

// fileLabelIn reads the label from the configuration of SELinux.
func fileLabelIn(dir string) string {
	policy := setting(filepath.Join(dir, "config"), "SELINUXTYPE")
	if policy == "" || strings.Contains(policy, "/") {
		return ""
	}
	return setting(filepath.Join(dir, policy, "contexts/lxc_contexts"), "file")
}

// setting returns the value of a line NAME=VALUE of a file, which may be in quotes; empty if there is none.
func setting(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), "=")
		if ok && strings.TrimSpace(key) == name {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}
