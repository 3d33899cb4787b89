package quadlet

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/podbuild"
)

// volumeKeys, networkKeys, kubeKeys and podKeys are the keys of the other sections, with what is
// lost.
var (
	volumeKeys = map[string]string{
		"ContainersConfModule": "the settings of containers.conf do not hold here", "Copy": "", "Device": "",
		"Driver":     "the volume is a directory of this node",
		"GlobalArgs": "options of podman do not hold here", "Group": "any user in the pod may write to the volume",
		"Image": "the volume is not filled from an image", "Label": "",
		"Options": "", "PodmanArgs": "options of podman do not hold here", "ServiceName": "", "Type": "",
		"User": "any user in the pod may write to the volume", "VolumeName": "",
	}
	networkKeys = map[string]string{
		"ContainersConfModule": "the settings of containers.conf do not hold here", "DisableDNS": "",
		"DNS": "pods ask the name servers of the host", "Driver": runtimeNetwork, "Gateway": runtimeNetwork,
		"GlobalArgs": "options of podman do not hold here", "InterfaceName": runtimeNetwork,
		"Internal": "the network is not internal: its pods reach other networks", "IPAMDriver": runtimeNetwork,
		"IPRange": runtimeNetwork, "IPv6": runtimeNetwork,
		"Label": "", "NetworkDeleteOnStop": "", "NetworkName": "", "Options": runtimeNetwork,
		"PodmanArgs": "options of podman do not hold here", "ServiceName": "", "Subnet": runtimeNetwork,
	}
	kubeKeys = map[string]string{
		"AutoUpdate": "set the annotation podstead.io/auto-update in the manifest", "ConfigMap": "",
		"ContainersConfModule": "the settings of containers.conf do not hold here",
		"ExitCodePropagation":  "systemd does not see the pod end", "GlobalArgs": "options of podman do not hold here",
		"KubeDownForce": "", "LogDriver": "the daemon writes and rotates the log; read it with podstead logs",
		"LogOpt":     "the daemon writes and rotates the log",
		"Network":    "pods are on the network of the runtime; for that of the host set hostNetwork: true in the manifest",
		"PodmanArgs": "options of podman do not hold here", "PublishPort": "",
		"RemapGid": noMapping, "RemapUid": noMapping, "RemapUidSize": noMapping, "RemapUsers": noMapping, "ServiceName": "",
		"SetWorkingDirectory": "", "UserNS": noMapping, "Yaml": "",
	}
	podKeys = map[string]string{
		"AddHost": "", "ContainersConfModule": "the settings of containers.conf do not hold here", "DNS": "", "DNSOption": "",
		"DNSSearch": "", "ExitPolicy": "", "GIDMap": noMapping, "GlobalArgs": "options of podman do not hold here",
		"HostName": "",
		"IP":       podbuild.RemedyIP, "IP6": podbuild.RemedyIP, "Label": "", "Network": "",
		"NetworkAlias": "the pod has one name: that of its unit, or PodName",
		"PodmanArgs":   "options of podman do not hold here", "PodName": "", "PublishPort": "",
		"RemapGid": noMapping, "RemapUid": noMapping, "RemapUidSize": noMapping, "RemapUsers": noMapping, "ServiceName": "",
		"ShmSize": "", "StopTimeout": "", "SubGIDMap": noMapping, "SubUIDMap": noMapping, "UIDMap": noMapping,
		"UserNS": noMapping, "Volume": "",
	}
)

const (
	runtimeNetwork = "pods are on the network of the runtime; configure it in /etc/cni/net.d"
	healthLog      = "failures of a health check are events of the pod"
	noMapping      = "user IDs are not mapped; see hostUsers: false"
)

// pod converts the [Pod] section, after the containers of the pod.
func (c *converter) pod(u *unitFile) {
	b := c.pods[u.base]
	if b == nil {
		return
	}
	c.checkKeys(u, "Pod", podKeys)
	containers := b.Containers()
	if len(containers) == 0 {
		c.report.Error(u.file(), "the pod has no container", "convert the directory, or name its .container files too")
		return
	}
	first := &container{converter: c, u: u, b: b, c: containers[0]}
	for _, e := range u.entries {
		if e.section != "Pod" || e.value == "" {
			continue
		}
		value, f := u.expand(e, c.report), u.field(e)
		switch e.key {
		case "PublishPort":
			publish(b, containers[0], value, f)
		case "AddHost":
			b.AddHost(f, value)
		case "HostName":
			b.Pod.Spec.Hostname = podbuild.Name(value)
		case "Label":
			first.annotation(value, f)
		case "Network":
			first.network(value, f)
		case "StopTimeout":
			first.stopTimeout(value, f)
		case "ShmSize":
			for _, one := range containers {
				(&container{converter: c, u: u, b: b, c: one}).shmSize(value, f)
			}
		case "Volume":
			m, err := docker.ParseVolume(value)
			if err != nil {
				c.report.Error(f, err.Error(), "")
				continue
			}
			for _, one := range containers {
				c.attach(one, u, m, f)
			}
		case "DNS", "DNSSearch", "DNSOption":
			setDNS(c, u, "Pod", b, f)
		}
	}
	c.dependencies(u, b)
}

// serviceSection converts what [Service] reports about a container, and reports the rest. k is nil for
// a .kube unit.
func (c *converter) serviceSection(u *unitFile, k *container) {
	policy := v1.RestartPolicyNever
	f := u.file()
	if e, ok := u.last("Service", "Restart"); ok {
		f = u.field(e)
		switch e.value {
		case "always":
			policy = v1.RestartPolicyAlways
		case "on-failure", "on-abnormal", "on-abort", "on-watchdog":
			policy = v1.RestartPolicyOnFailure
		case "no":
		case "on-success":
			c.report.Lost(f, "a container is not restarted on success only", "use always")
			policy = v1.RestartPolicyAlways
		default:
			c.report.Error(f, fmt.Sprintf("is %q", e.value), "must be no, always or on-failure")
		}
	} else if k != nil {
		c.report.Note(f, "the unit has no Restart, so that the pod ends for good when its container ends (restartPolicy: "+
			"Never)", "write Restart=always in [Service] to run it again, also after a boot")
	}
	if k != nil {
		k.restart(policy)
	}
	for _, e := range u.entries {
		if e.section == "Service" && e.value != "" {
			c.serviceKey(u, k, e)
		} else if e.section != "Unit" && e.section != "Install" && e.section != "Quadlet" && e.section != sectionOf(u) &&
			!strings.HasPrefix(e.section, "X-") {
			c.report.Error(u.field(e), "the section ["+e.section+"] is not known", "")
		}
	}
	if len(u.all("Install", "WantedBy"))+len(u.all("Install", "RequiredBy"))+len(u.all("Install", "UpheldBy")) == 0 &&
		k != nil && !k.shared {
		c.report.Note(u.file(), "has no WantedBy= in [Install]: systemd does not start it at boot, and podstead does", "")
	}
}

// restart sets the restart policy of the pod, or of the container if another one of the pod has
// set it.
func (k *container) restart(policy v1.RestartPolicy) {
	switch own := &k.b.Pod.Spec.RestartPolicy; *own {
	case "", policy:
		*own = policy
	default:
		p := v1.ContainerRestartPolicy(policy)
		k.c.RestartPolicy = &p
	}
}

// serviceKey converts or reports one key of [Service].
func (c *converter) serviceKey(u *unitFile, k *container, e entry) {
	f := u.field(e)
	switch e.key {
	case "Restart", "Type", "RemainAfterExit", "TimeoutStartSec", "Delegate", "KillMode", "NotifyAccess",
		"SyslogIdentifier":
	case "RestartSec", "RestartSteps", "RestartMaxDelaySec":
		c.report.Note(f, "the back-off is that of Kubernetes: 10 s, doubling up to 5 minutes",
			"set the annotation podstead.io/max-container-restart-period")
	case "TimeoutStopSec", "TimeoutSec":
		d, err := docker.ParseDuration(strings.NewReplacer(" ", "", "min", "m", "sec", "s").Replace(e.value), time.Second)
		if err != nil {
			c.report.Lost(f, fmt.Sprintf("%q is not a grace period", e.value), "write StopTimeout= in [Container]")
		} else if k != nil && k.b.Pod.Spec.TerminationGracePeriodSeconds == nil {
			k.b.SetGracePeriod(f, d)
		}
	case "MemoryMax":
		if k != nil && e.value != "infinity" {
			k.memory(e.value, f)
		}
	case "CPUQuota":
		var percent float64
		if _, err := fmt.Sscanf(e.value, "%f%%", &percent); err != nil || k == nil {
			c.report.Lost(f, "is not a limit of the pod", "set resources.limits")
			return
		}
		q, err := docker.ParseCPUs(fmt.Sprint(percent / 100))
		if err != nil {
			c.report.Error(f, fmt.Sprintf("is %q", e.value), err.Error())
			return
		}
		podbuild.SetLimit(k.c, v1.ResourceCPU, q)
	case "ExecStartPre", "ExecStartPost", "ExecStop", "ExecStopPost", "ExecReload", "ExecCondition":
		c.report.Lost(f, "the command is not run",
			"use an init container, or the hooks postStart and preStop of the container")
	default:
		c.report.Lost(f, "systemd does not run the pod", "write its field into the pod, if it has one")
	}
}
