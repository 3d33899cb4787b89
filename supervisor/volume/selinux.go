package volume

import (
	"bufio"
	"cmp"
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

// validPart excludes what would end the mount option.
var validPart = regexp.MustCompile(`^[A-Za-z0-9:,._-]+$`)

// fileOptions are the parts of the SELinux options of a process that its files have too.
type fileOptions struct{ user, level string }

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
	options := fileOptionsOf(s.req.Pod, volume)
	if options.level == "" {
		return ""
	}
	file := s.fileLabel
	if file == nil {
		file = hostFileLabel
	}
	label := withOptions(file(), options)
	if label == "" {
		return ""
	}
	return `context="` + label + `"`
}

// fileOptionsOf returns the options of the containers that mount a volume; without a level if they have none, or
// different ones.
func fileOptionsOf(pod *v1.Pod, volume string) (common fileOptions) {
	policy := v1.SELinuxChangePolicyMountOption
	var ofPod *v1.SELinuxOptions
	if sc := pod.Spec.SecurityContext; sc != nil {
		ofPod = sc.SELinuxOptions
		if sc.SELinuxChangePolicy != nil {
			policy = *sc.SELinuxChangePolicy
		}
	}
	if policy != v1.SELinuxChangePolicyMountOption {
		return fileOptions{}
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
		if options == nil || !validPart.MatchString(options.Level) || options.User != "" &&
			!validPart.MatchString(options.User) {
			return fileOptions{}
		}
		own := fileOptions{options.User, options.Level}
		if !first && own != common {
			return fileOptions{}
		}
		common, first = own, false
	}
	return common
}

// withOptions replaces parts of a label user:role:type:level; empty if it is none.
func withOptions(label string, o fileOptions) string {
	parts := strings.SplitN(label, ":", 4)
	if len(parts) < 3 {
		return ""
	}
	return strings.Join([]string{cmp.Or(o.user, parts[0]), parts[1], parts[2], o.level}, ":")
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
