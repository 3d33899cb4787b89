package podbuild

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/report"
)

// RemedyIP is the remedy for a fixed address of a container.
const RemedyIP = "a pod gets its address from the network of the runtime; use its name"

// SetUser sets the user and the group of a container.
func (b *Builder) SetUser(c *v1.Container, f report.Field, text string) {
	uid, gid, err := docker.ParseUser(text)
	if err != nil {
		b.Report.Error(f, err.Error(), "")
		return
	}
	Security(c).RunAsUser, Security(c).RunAsGroup = uid, gid
}

// AddGroup adds a supplementary group to the pod.
func (b *Builder) AddGroup(f report.Field, text string) {
	gid, err := docker.ParseGroup(text)
	if err != nil {
		b.Report.Error(f, err.Error(), "")
		return
	}
	b.PodSecurity().SupplementalGroups = append(b.PodSecurity().SupplementalGroups, *gid)
}

// AddCapability adds or drops a capability.
func AddCapability(c *v1.Container, name string, drop bool) {
	s := Security(c)
	if s.Capabilities == nil {
		s.Capabilities = &v1.Capabilities{}
	}
	capability := v1.Capability(strings.TrimPrefix(strings.ToUpper(name), "CAP_"))
	if drop {
		s.Capabilities.Drop = append(s.Capabilities.Drop, capability)
	} else {
		s.Capabilities.Add = append(s.Capabilities.Add, capability)
	}
}

// AddHost adds NAME:IP or NAME=IP to /etc/hosts of the pod.
func (b *Builder) AddHost(f report.Field, text string) {
	name, ip, ok := strings.Cut(text, "=")
	if !ok {
		name, ip, ok = strings.Cut(text, ":")
	}
	ip = strings.Trim(strings.TrimSpace(ip), "[]")
	switch {
	case !ok || name == "":
		b.Report.Error(f, fmt.Sprintf("%q is not a host", text), "must be NAME:ADDRESS")
		return
	case ip == "host-gateway":
		b.Report.Lost(f, "the address of the host is not known before the pod runs",
			"take it from a variable with valueFrom: {fieldRef: {fieldPath: status.hostIP}}")
		return
	}
	for names := range strings.SplitSeq(name, ";") {
		aliases := b.Pod.Spec.HostAliases
		if i := slices.IndexFunc(aliases, func(a v1.HostAlias) bool { return a.IP == ip }); i >= 0 {
			aliases[i].Hostnames = append(aliases[i].Hostnames, strings.TrimSpace(names))
			continue
		}
		b.Pod.Spec.HostAliases = append(aliases, v1.HostAlias{IP: ip, Hostnames: []string{strings.TrimSpace(names)}})
	}
}

// AddSysctl adds a kernel parameter.
func (b *Builder) AddSysctl(name, value string) {
	b.PodSecurity().Sysctls = append(b.PodSecurity().Sysctls,
		v1.Sysctl{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
}

// DNS is the configuration of the resolver of a pod.
type DNS struct{ Servers, Search, Options []string }

// SetDNS sets the resolver of the pod.
func (b *Builder) SetDNS(f report.Field, dns DNS) {
	config := &v1.PodDNSConfig{Nameservers: dns.Servers, Searches: dns.Search}
	for _, option := range dns.Options {
		name, value, set := strings.Cut(option, ":")
		o := v1.PodDNSConfigOption{Name: name}
		if set {
			o.Value = &value
		}
		config.Options = append(config.Options, o)
	}
	b.Pod.Spec.DNSConfig = config
	if len(dns.Servers) > 0 {
		b.Pod.Spec.DNSPolicy = v1.DNSNone
		b.Report.Note(f, "the pod asks these name servers only, so that it does not find other pods by name", "")
	}
}

// Health is a health check with durations as they are written; empty is the default.
type Health struct {
	// Command is the command in the container.
	Command []string
	// Interval, Timeout and Retries have the defaults 30s, 30s and 3.
	Interval, Timeout time.Duration
	Retries           int32
}

// Probe returns the probe of a health check.
func (b *Builder) Probe(f report.Field, h Health) *v1.Probe {
	seconds := func(d time.Duration, what string) int32 {
		n, rounded := docker.Seconds(d)
		if rounded {
			b.Report.Note(f, fmt.Sprintf("the %s %s is rounded up to %d s: probes have whole seconds", what, d, n), "")
		}
		return int32(max(1, min(n, math.MaxInt32)))
	}
	return &v1.Probe{
		ProbeHandler:     v1.ProbeHandler{Exec: &v1.ExecAction{Command: h.Command}},
		PeriodSeconds:    seconds(h.Interval, "interval"),
		TimeoutSeconds:   seconds(h.Timeout, "timeout"),
		FailureThreshold: max(1, h.Retries),
	}
}

// SetGracePeriod sets the grace period of the pod.
func (b *Builder) SetGracePeriod(f report.Field, d time.Duration) {
	n, rounded := docker.Seconds(d)
	if rounded {
		b.Report.Note(f, fmt.Sprintf("%s is rounded up to %d s", d, n), "")
	}
	b.Pod.Spec.TerminationGracePeriodSeconds = &n
}

// SecurityOption applies an option of --security-opt.
func (b *Builder) SecurityOption(c *v1.Container, f report.Field, option string) {
	i := strings.IndexAny(option, ":=")
	name, value := option, ""
	if i >= 0 {
		name, value = option[:i], option[i+1:]
	}
	s := Security(c)
	switch name {
	case "no-new-privileges":
		if on, err := docker.ParseBool(value); value == "" || err == nil && on {
			s.AllowPrivilegeEscalation = new(bool)
		}
	case "seccomp":
		if value == "unconfined" {
			s.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}
			return
		}
		b.Report.Lost(f, "the seccomp profile "+value+" of the docker host", "copy it to /var/lib/podstead/seccomp, and "+
			"set securityContext.seccompProfile to {type: Localhost, localhostProfile: FILE}")
	case "apparmor":
		s.AppArmorProfile = &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &value}
		if value == "unconfined" {
			s.AppArmorProfile = &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
		}
	case "label":
		b.label(s, f, value)
	default:
		b.Report.Lost(f, fmt.Sprintf("the option %q has no counterpart in a pod", option), "")
	}
	if *s == (v1.SecurityContext{}) {
		c.SecurityContext = nil
	}
}

// label applies an SELinux label.
func (b *Builder) label(s *v1.SecurityContext, f report.Field, value string) {
	if s.SELinuxOptions == nil {
		s.SELinuxOptions = &v1.SELinuxOptions{}
	}
	key, label, _ := strings.Cut(value, ":")
	switch key {
	case "user":
		s.SELinuxOptions.User = label
	case "role":
		s.SELinuxOptions.Role = label
	case "type":
		s.SELinuxOptions.Type = label
	case "level":
		s.SELinuxOptions.Level = label
	case "disable":
		s.SELinuxOptions.Type = "spc_t"
	default:
		b.Report.Lost(f, fmt.Sprintf("the SELinux option %q has no counterpart in a pod", value), "")
	}
}

// AddClaim adds a PersistentVolumeClaim next to the pod.
func (b *Builder) AddClaim(name string, labels map[string]string, origin report.Field) {
	meta := b.Meta(name)
	meta.Labels = labels
	b.AddObject(&v1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: meta,
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceStorage: docker.BytesQuantity(1 << 30)}},
		},
	}, origin)
}

// AddEnvFrom gives a container the variables of env files by a Secret next to the pod, since such
// files hold passwords.
func (b *Builder) AddEnvFrom(c *v1.Container, name string, values map[string]string, f report.Field) {
	if len(values) == 0 {
		return
	}
	b.AddObject(&v1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: b.Meta(name),
		StringData: values}, f)
	c.EnvFrom = append(c.EnvFrom,
		v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}})
	b.Report.Note(f, "the variables are in the Secret "+name+": later changes of the file have no effect",
		"edit the Secret")
}
