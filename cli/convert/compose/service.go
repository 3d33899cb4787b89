package compose

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/convert/tree"
)

// handler converts one field of a service.
type handler func(s *service, n *tree.Node, f report.Field)

// handlers are those of all fields; nil is for a field that is converted elsewhere, or whose
// purpose does not exist here.
var handlers map[string]handler

func init() {
	handlers = map[string]handler{
		"image": (*service).image, "command": (*service).command, "entrypoint": (*service).entrypoint,
		"environment": (*service).environment, "env_file": (*service).envFile, "ports": (*service).ports,
		"expose":  (*service).expose,
		"volumes": (*service).volumes, "tmpfs": (*service).tmpfs, "configs": (*service).configs,
		"secrets":    (*service).secrets,
		"depends_on": nil, "links": (*service).links, "networks": (*service).serviceNetworks,
		"network_mode": (*service).networkMode,
		"deploy":       (*service).deploy, "user": (*service).user, "group_add": each((*service).group),
		"working_dir": (*service).workingDir,
		"cap_add":     each((*service).capAdd), "cap_drop": each((*service).capDrop), "privileged": (*service).privileged,
		"read_only":    (*service).readOnly,
		"security_opt": each((*service).securityOpt), "devices": each((*service).device), "sysctls": (*service).sysctls,
		"hostname": (*service).hostname, "extra_hosts": (*service).extraHosts, "dns": (*service).dns,
		"dns_search": (*service).dns, "dns_opt": (*service).dns,
		"labels": (*service).labels, "annotations": (*service).labels, "container_name": (*service).containerName,
		"stop_grace_period": (*service).stopGracePeriod, "stop_signal": (*service).stopSignal, "init": (*service).useInit,
		"tty": (*service).tty, "stdin_open": (*service).stdin, "pid": (*service).pid, "ipc": (*service).ipc,
		"shm_size":    (*service).shmSize,
		"pull_policy": (*service).pullPolicy, "build": (*service).build, "scale": (*service).replicas,
		"platform": lost("the image is that of this machine's platform", ""),
		"cpus":     (*service).cpus, "mem_limit": (*service).memLimit, "mem_reservation": (*service).memReservation,
		"cpu_shares": (*service).cpuShares, "cpu_quota": (*service).cpuQuota,
		"post_start": (*service).postStart, "pre_stop": (*service).preStop, "userns_mode": (*service).userNamespace,

		"restart": nil, "healthcheck": nil, "extends": nil, "profiles": nil, "provider": nil, "cpu_period": nil,
		"attach": nil, "develop": nil,

		"ulimits": lost("a pod has no ulimits: those of the runtime hold",
			"set LimitNOFILE= and the like in the unit of containerd or CRI-O, or call ulimit in the command"),
		"logging": lost("the daemon rotates the log of each container",
			"see --container-log-max-size; read it with podstead logs, or from /var/log/pods"),
		"pids_limit":       lost("a container has no limit of processes of its own", "set podPidsLimit of the daemon"),
		"memswap_limit":    lost("swap is not limited by a pod", ""),
		"mem_swappiness":   lost("swap is not limited by a pod", ""),
		"oom_kill_disable": lost("a container that exceeds its memory is killed", ""),
		"oom_score_adj": lost("the daemon sets it by the QoS class of the pod",
			"set requests and limits, or a priorityClassName"),
		"blkio_config": lost("a pod has no limits of I/O", ""),
		"cpuset": lost("a pod does not choose its CPUs",
			"request whole CPUs with equal requests and limits, and set cpuManagerPolicy: static"),
		"cpu_rt_runtime":      lost("a pod has no realtime CPU", ""),
		"cpu_rt_period":       lost("a pod has no realtime CPU", ""),
		"cpu_count":           lost("is for Windows", ""),
		"cpu_percent":         lost("is for Windows", ""),
		"isolation":           lost("is for Windows", ""),
		"credential_spec":     lost("is for Windows", ""),
		"cgroup":              lost("a container has a cgroup namespace of its own", ""),
		"cgroup_parent":       lost("the daemon creates the cgroup of the pod", "see --cgroup-root"),
		"device_cgroup_rules": lost("devices are named by their path", "see devices: and docs/devices.md"),
		"domainname":          lost("a pod has no domain of its own", "set spec.subdomain"),
		"driver_opts":         lost("has no counterpart in a pod", ""),
		"external_links":      lost("containers of other projects are not known", "use the name of a pod"),
		"gpus": lost("a GPU is a resource of a device plugin",
			"see docs/devices.md, and set resources.limits"),
		"label_file":         lost("the file is not read", "write the labels into the Compose file"),
		"mac_address":        lost("the network of the runtime chooses it", ""),
		"models":             lost("models are not converted", "run the model in a container of its own"),
		"pull_refresh_after": lost("an image is checked by its tag", "set the annotation podstead.io/auto-update: registry"),
		"runtime":            lost("the runtime of docker is not known here", "set runtimeClassName and a RuntimeClass"),
		"storage_opt":        lost("has no counterpart in a pod", "set resources.limits of ephemeral-storage"),
		"use_api_socket":     lost("there is no socket of docker", ""),
		"uts":                lost("the UTS namespace is that of the pod", "set hostNetwork: true, which includes it"),
		"volumes_from": lost("volumes of another service are not known to this one",
			"mount the same named volume in both"),
	}
}

// lost returns the handler of a field that has no counterpart.
func lost(problem, remedy string) handler {
	return func(s *service, n *tree.Node, f report.Field) {
		if n.Kind != tree.Scalar || n.Text != "false" && n.Text != "0" && n.Text != "" {
			s.p.report.Lost(f, problem, remedy)
		}
	}
}

// each returns the handler of a list, or of a single item.
func each(one handler) handler {
	return func(s *service, n *tree.Node, f report.Field) {
		for i, item := range listOf(n) {
			at := f
			if n.Kind == tree.List {
				at = f.Index(i, item.Position)
			}
			one(s, item, at)
		}
	}
}

// bool returns a boolean, and reports anything else.
func (s *service) bool(n *tree.Node, f report.Field) bool {
	value, err := docker.ParseBool(n.String())
	if err != nil {
		s.p.report.Error(f, "is "+n.Describe(), err.Error())
	}
	return value
}

// int returns a number, and reports anything else.
func (s *service) int(n *tree.Node, f report.Field) int64 {
	value, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil || value < 0 {
		s.p.report.Error(f, "is "+n.Describe(), "must be a number")
		return 0
	}
	return value
}

// duration returns a duration, and reports anything else. Without a value it is the default.
func (s *service) duration(n *tree.Node, f report.Field, otherwise time.Duration) time.Duration {
	if n.IsNull() {
		return otherwise
	}
	d, err := docker.ParseDuration(n.String(), 0)
	if err != nil {
		s.p.report.Error(f, "is "+n.Describe(), err.Error())
	}
	return d
}

func (s *service) image(n *tree.Node, _ report.Field) {
	image := n.String()
	if name, err := reference.ParseNormalizedNamed(image); err == nil {
		image = name.String()
		_, isDigest := name.(reference.Digested)
		if tagged, isTagged := name.(reference.Tagged); !isDigest && (!isTagged || tagged.Tag() == "latest") {
			// As docker compose, which pulls what is missing. The default of Kubernetes for
			// the tag latest is Always.
			s.c.ImagePullPolicy = v1.PullIfNotPresent
		}
	}
	s.c.Image = image
}

func (s *service) pullPolicy(n *tree.Node, f report.Field) {
	switch policy := n.String(); policy {
	case "always":
		s.c.ImagePullPolicy = v1.PullAlways
	case "never":
		s.c.ImagePullPolicy = v1.PullNever
	case "missing", "if_not_present":
		s.c.ImagePullPolicy = v1.PullIfNotPresent
	case "build":
		s.p.report.Lost(f, "images are not built here", "copy the image with docker save and podstead images load")
		s.c.ImagePullPolicy = v1.PullIfNotPresent
	default:
		s.p.report.Lost(f, fmt.Sprintf("the policy %q has no counterpart in a pod", policy),
			"set the annotation podstead.io/auto-update: registry")
	}
}

func (s *service) build(_ *tree.Node, f report.Field) {
	if image := s.node.Get("image"); !image.IsNull() {
		s.p.report.Lost(f, "images are not built here: "+image.String()+" must be in a registry or in the runtime",
			"build it elsewhere, and push it, or copy it with docker save and podstead images load")
	}
}

// words returns a command, which is a list or a text that is split as by a shell.
func (s *service) words(n *tree.Node, f report.Field) []string {
	if n.Kind != tree.Scalar {
		var words []string
		for _, item := range n.Items {
			words = append(words, item.String())
		}
		return words
	}
	words, err := docker.SplitWords(n.Text)
	if err != nil {
		s.p.report.Error(f, n.Describe()+" "+err.Error(), "write it as a list")
	}
	return words
}

func (s *service) command(n *tree.Node, f report.Field) {
	words := docker.EscapeAll(s.words(n, f))
	if entrypoint := s.node.Get("entrypoint"); !entrypoint.IsNull() && len(s.words(entrypoint, f)) == 0 {
		s.c.Command = words // the entrypoint of the image is removed
		return
	}
	s.c.Args = words
}

func (s *service) entrypoint(n *tree.Node, f report.Field) {
	words := docker.EscapeAll(s.words(n, f))
	if len(words) > 0 {
		s.c.Command = words
	} else if s.node.Get("command").IsNull() {
		s.p.report.Lost(f, "a pod cannot remove the entrypoint of the image without another command", "write the command")
	}
}

// pairs returns a map, or a list of NAME=VALUE, as fields; a null value is a name alone.
func (s *service) pairs(n *tree.Node, f report.Field, separators string) []tree.Field {
	m := toMap(n, separators)
	if !m.Is(tree.Map) {
		s.p.report.Error(f, "is "+n.Describe(), "must be a mapping, or a list of NAME=VALUE")
		return nil
	}
	return m.Fields
}

func (s *service) environment(n *tree.Node, f report.Field) {
	for _, field := range s.pairs(n, f, "=") {
		value := field.Value.String()
		if field.Value.IsNull() {
			var set bool
			if value, set = s.p.vars.lookup(field.Key); !set {
				s.p.report.Lost(f.Child(field.Key, field.Position), "the variable has no value here and is left out",
					"set it in the environment or in .env")
				continue
			}
		}
		s.c.Env = append(s.c.Env, v1.EnvVar{Name: field.Key, Value: docker.Escape(value)})
	}
}

func (s *service) user(n *tree.Node, f report.Field)       { s.b.SetUser(s.c, f, n.String()) }
func (s *service) group(n *tree.Node, f report.Field)      { s.b.AddGroup(f, n.String()) }
func (s *service) workingDir(n *tree.Node, _ report.Field) { s.c.WorkingDir = n.String() }
func (s *service) capAdd(n *tree.Node, _ report.Field) {
	podbuild.AddCapability(s.c, n.String(), false)
}
func (s *service) capDrop(n *tree.Node, _ report.Field) {
	podbuild.AddCapability(s.c, n.String(), true)
}
func (s *service) tty(n *tree.Node, f report.Field)   { s.c.TTY = s.bool(n, f) }
func (s *service) stdin(n *tree.Node, f report.Field) { s.c.Stdin = s.bool(n, f) }

func (s *service) securityOpt(n *tree.Node, f report.Field) { s.b.SecurityOption(s.c, f, n.String()) }

func (s *service) privileged(n *tree.Node, f report.Field) {
	if s.bool(n, f) {
		on := true
		podbuild.Security(s.c).Privileged = &on
	}
}

func (s *service) readOnly(n *tree.Node, f report.Field) {
	if s.bool(n, f) {
		on := true
		podbuild.Security(s.c).ReadOnlyRootFilesystem = &on
	}
}

func (s *service) device(n *tree.Node, f report.Field) {
	text := n.String()
	if n.Is(tree.Map) {
		text = strings.Trim(n.Get("source").String()+":"+n.Get("target").String()+":"+n.Get("permissions").String(), ":")
	}
	if strings.Contains(text, "=") && !strings.HasPrefix(text, "/") {
		s.p.report.Lost(f, "the CDI device "+text+" is a resource here",
			"name it in localDevices of the configuration, see docs/devices.md, and set resources.limits")
		return
	}
	d, err := docker.ParseDevice(text)
	if err != nil {
		s.p.report.Error(f, err.Error(), "")
		return
	}
	if s.node.Get("privileged").String() == "true" {
		on := true
		podbuild.Security(s.c).Privileged = &on
	}
	s.b.AddDevice(s.c, f, d)
}

func (s *service) sysctls(n *tree.Node, f report.Field) {
	for _, field := range s.pairs(n, f, "=") {
		s.b.AddSysctl(field.Key, field.Value.String())
	}
}

// labels become annotations: those of Kubernetes select objects, and their values are restricted.
func (s *service) labels(n *tree.Node, f report.Field) {
	for _, field := range s.pairs(n, f, "=") {
		if !podbuild.IsAnnotation(field.Key) {
			s.p.report.Lost(f.Child(field.Key, field.Position), "the name is not valid in Kubernetes",
				"must be [DOMAIN/]NAME of letters, digits, - _ .")
			continue
		}
		s.b.Annotate(field.Key, field.Value.String())
	}
}

func (s *service) containerName(n *tree.Node, f report.Field) {
	if name := n.String(); name != s.b.Pod.Name {
		s.p.report.Note(f, fmt.Sprintf("the pod is named %s, as its service", s.b.Pod.Name),
			"use that name where others refer to "+name)
	}
}

func (s *service) useInit(n *tree.Node, f report.Field) {
	if s.bool(n, f) {
		on := true
		s.b.Pod.Spec.ShareProcessNamespace = &on
		s.p.report.Note(f, "is shareProcessNamespace: process 1 of the pod reaps processes without a parent", "")
	}
}

func (s *service) replicas(n *tree.Node, f report.Field) {
	switch count := s.int(n, f); {
	case count > 1:
		s.p.report.Lost(f, fmt.Sprintf("one pod runs, and not %d", count), "write further services with other names")
	case count == 0:
		s.p.report.Lost(f, "one pod runs, although none is wanted", "delete it from the result")
	}
}

func (s *service) userNamespace(n *tree.Node, f report.Field) {
	if n.String() != "host" {
		s.p.report.Lost(f, fmt.Sprintf("the user namespace %q has no counterpart in a pod", n.String()),
			"set hostUsers: false for one of the pod's own")
	}
}
