package quadlet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// handlers are those of the keys of [Container] that a pod has. The value has its specifiers
// replaced.
var handlers map[string]func(k *container, value string, f report.Field)

func init() {
	handlers = map[string]func(k *container, value string, f report.Field){
		"Image": (*container).image, "Exec": (*container).exec, "Entrypoint": (*container).entrypoint,
		"Environment": (*container).environment, "Annotation": (*container).annotation, "Label": (*container).annotation,
		"PublishPort": (*container).publish, "ExposeHostPort": (*container).expose,
		"Volume": (*container).volume, "Mount": (*container).mount, "Tmpfs": (*container).tmpfs,
		"ShmSize": (*container).shmSize, "Secret": (*container).secret,
		"AddCapability":  func(k *container, value string, _ report.Field) { k.capabilities(value, false) },
		"DropCapability": func(k *container, value string, _ report.Field) { k.capabilities(value, true) },
		"AddDevice":      (*container).device,
		"AddHost":        func(k *container, value string, f report.Field) { k.b.AddHost(f, value) },
		"User":           (*container).user, "Group": (*container).group,
		"GroupAdd":   func(k *container, value string, f report.Field) { k.b.AddGroup(f, value) },
		"WorkingDir": func(k *container, value string, _ report.Field) { k.c.WorkingDir = value },
		"HostName":   func(k *container, value string, _ report.Field) { k.b.Pod.Spec.Hostname = podbuild.Name(value) },
		"ReadOnly":   (*container).readOnly, "NoNewPrivileges": (*container).noNewPrivileges,
		"SeccompProfile": (*container).seccomp,
		"AppArmor": func(k *container, value string,
			f report.Field) {
			k.b.SecurityOption(k.c, f, "apparmor="+value)
		},
		"SecurityLabelDisable": (*container).labelDisable,
		"SecurityLabelType": func(k *container, value string,
			f report.Field) {
			k.b.SecurityOption(k.c, f, "label=type:"+value)
		},
		"SecurityLabelLevel": func(k *container, value string,
			f report.Field) {
			k.b.SecurityOption(k.c, f, "label=level:"+value)
		},
		"Sysctl": (*container).sysctl, "StopTimeout": (*container).stopTimeout, "StopSignal": (*container).stopSignal,
		"RunInit": (*container).runInit,
		"Pull":    (*container).pull, "AutoUpdate": (*container).autoUpdate, "Timezone": (*container).timezone,
		"Memory":  (*container).memory,
		"Network": (*container).network, "PodmanArgs": (*container).podmanArgs, "UserNS": (*container).userNS,
		"DNS": (*container).dns, "DNSSearch": (*container).dns, "DNSOption": (*container).dns,
	}
}

// keys are all keys of [Container]; a text reports what is lost.
var keys = map[string]string{
	"ContainerName": "", "Pod": "", "ServiceName": "", "StartWithPod": "",
	"Notify":    "the pod is ready when its container runs, without a message of the program; write HealthCmd",
	"HealthCmd": "", "HealthInterval": "", "HealthTimeout": "", "HealthRetries": "",
	"HealthStartPeriod": "", "HealthOnFailure": "", "HealthStartupCmd": "", "HealthStartupInterval": "",
	"HealthStartupRetries": "", "HealthStartupSuccess": "", "HealthStartupTimeout": "",
	"EnvironmentFile": "", "ReadOnlyTmpfs": "", "VolatileTmp": "write Tmpfs=/tmp",
	"ContainersConfModule": "the settings of containers.conf do not hold here", "CgroupsMode": "",
	"EnvironmentHost": "variables of the host are not passed on", "GlobalArgs": "options of podman do not hold here",
	"HttpProxy":            "the proxy of the host is not passed on; write it as Environment",
	"HealthLogDestination": healthLog, "HealthMaxLogCount": healthLog, "HealthMaxLogSize": healthLog,
	"IP": podbuild.RemedyIP, "IP6": podbuild.RemedyIP,
	"NetworkAlias": "the pod has one name: that of its unit, or ContainerName",
	"LogDriver":    "the daemon writes and rotates the log; read it with podstead logs",
	"LogOpt":       "the daemon writes and rotates the log; see --container-log-max-size",
	"Mask":         "a pod masks the paths of the runtime",
	"Unmask":       "a pod masks the paths of the runtime; see securityContext.procMount",
	"PidsLimit":    "a container has no limit of processes of its own; set podPidsLimit of the daemon",
	"Rootfs":       "a container needs an image", "ReloadCmd": "a pod is not reloaded; run the command with podstead exec",
	"ReloadSignal": "a pod is not reloaded; send the signal with podstead exec",
	"Retry":        "", "RetryDelay": "", "SecurityLabelFileType": "the SELinux type of files is not changed",
	"SecurityLabelNested": "has no counterpart in a pod",
	"GIDMap":              noMapping, "UIDMap": noMapping, "SubGIDMap": noMapping, "SubUIDMap": noMapping,
	"RemapUsers": noMapping, "RemapUid": noMapping, "RemapGid": noMapping, "RemapUidSize": noMapping,
	"Ulimit": "a pod has no ulimits; set LimitNOFILE= and the like in the unit of the runtime, or call ulimit in the " +
		"command",
}

// convert converts the unit.
func (k *container) convert() {
	if k.u.value("Container", "Image") == "" {
		k.report.Error(k.u.file(), "has no Image=", "name the image")
		k.c.Image = "missing" // so that the check of the pod does not repeat the error
	}
	if value := k.u.value("Container", "PodmanArgs"); strings.Contains(value, "--privileged") {
		on := true
		podbuild.Security(k.c).Privileged = &on
	}
	known := map[string]string{}
	for key := range handlers {
		known[key] = ""
	}
	for key, lost := range keys {
		known[key] = lost
	}
	k.checkKeys(k.u, "Container", known)
	done := map[string]bool{}
	for _, e := range k.u.entries {
		handler := handlers[e.key]
		if e.section != "Container" || handler == nil || done[e.key] {
			continue
		}
		done[e.key] = true
		assignments := k.u.all("Container", e.key)
		if single[e.key] && len(assignments) > 1 {
			assignments = assignments[len(assignments)-1:]
		}
		for _, a := range assignments {
			handler(k, k.u.expand(a, k.report), k.u.field(a))
		}
	}
	k.environmentFiles()
	k.health()
	k.serviceSection(k.u, k)
	k.dependencies(k.u, k.b)
	if k.b.Pod.Spec.TerminationGracePeriodSeconds == nil {
		k.b.SetGracePeriod(k.u.file(), 10*time.Second) // that of podman
	}
}

// single are the keys of which the last assignment counts.
var single = map[string]bool{"Image": true, "Exec": true, "Entrypoint": true, "User": true, "Group": true,
	"WorkingDir": true, "HostName": true, "StopTimeout": true, "Pull": true, "Memory": true, "ShmSize": true}

func (k *container) image(value string, f report.Field) {
	switch {
	case strings.HasSuffix(value, ".build"):
		k.report.Error(f, "images are not built here",
			"build it elsewhere, name it here, and push it, or copy it with podman save and podstead images load")
	case strings.HasSuffix(value, ".image"):
		other := k.unit(k.u, value)
		if other == nil || other.value("Image", "Image") == "" {
			k.report.Error(f, "there is no unit "+value+" with Image=", "")
			return
		}
		value = other.value("Image", "Image")
	}
	k.c.Image = value
	if strings.HasPrefix(value, "localhost/") {
		k.report.Note(f, "the image is in podman's storage", "podman save it, and podstead images load it")
		k.c.ImagePullPolicy = v1.PullIfNotPresent
	}
}

// words splits a value, in which systemd replaces variables of its own.
func (k *container) words(value string, f report.Field) []string {
	words, err := docker.SplitWords(value)
	if err != nil {
		k.report.Error(f, err.Error(), "")
	}
	for i, word := range words {
		plain := strings.ReplaceAll(word, "$$", "\x00")
		if strings.Contains(plain, "$") {
			k.report.Note(f, fmt.Sprintf("systemd would replace the variable in %q; here the program gets it as it is", word),
				"write $$ for a dollar sign")
		}
		words[i] = docker.Escape(strings.ReplaceAll(plain, "\x00", "$"))
	}
	return words
}

func (k *container) exec(value string, f report.Field) { k.c.Args = k.words(value, f) }

func (k *container) entrypoint(value string, f report.Field) {
	var list []string
	if json.Unmarshal([]byte(value), &list) == nil {
		k.c.Command = docker.EscapeAll(list)
		return
	}
	k.c.Command = k.words(value, f)
}

func (k *container) environment(value string, f report.Field) {
	words, err := docker.SplitWords(value)
	if err != nil {
		k.report.Error(f, err.Error(), "")
	}
	for _, word := range words {
		name, text, set := strings.Cut(word, "=")
		if !set {
			k.report.Lost(f, "the variable "+name+" of the host is not passed on", "write NAME=VALUE")
			continue
		}
		k.c.Env = slices.DeleteFunc(k.c.Env, func(e v1.EnvVar) bool { return e.Name == name })
		k.c.Env = append(k.c.Env, v1.EnvVar{Name: name, Value: docker.Escape(text)})
	}
}

// environmentFiles turns the files into a Secret.
func (k *container) environmentFiles() {
	values := map[string]string{}
	files := k.u.all("Container", "EnvironmentFile")
	for _, e := range files {
		path, optional := strings.CutPrefix(k.u.expand(e, k.report), "-")
		data, err := k.options.Host.ReadFile(k.options.Host.Path(k.options.Host.BaseDir(k.u.path), path))
		if err != nil {
			if optional {
				k.report.Note(k.u.field(e), "does not exist and is not required", "")
			} else {
				k.report.Error(k.u.field(e), "cannot be read: "+err.Error(), "convert on the machine that has the file")
			}
			continue
		}
		lines, err := docker.ParseEnvFile(string(data), nil)
		if err != nil {
			k.report.Error(k.u.field(e), err.Error(), "must be lines of NAME=VALUE")
		}
		for _, line := range lines {
			if line.Set {
				values[line.Name] = line.Value
			}
		}
	}
	if len(files) > 0 {
		k.b.AddEnvFrom(k.c, podbuild.Name(k.u.name)+"-env", values, k.u.field(files[0]))
	}
}

func (k *container) annotation(value string, f report.Field) {
	words, err := docker.SplitWords(value)
	if err != nil {
		k.report.Error(f, err.Error(), "")
	}
	for _, word := range words {
		name, text, _ := strings.Cut(word, "=")
		if !podbuild.IsAnnotation(name) {
			k.report.Lost(f, fmt.Sprintf("the name %q is not valid in Kubernetes", name),
				"must be [DOMAIN/]NAME of letters, digits, - _ .")
			continue
		}
		k.b.Annotate(name, text)
	}
}

func (k *container) publish(value string, f report.Field) { publish(k.b, k.c, value, f) }

// publish adds a published port.
func publish(b *podbuild.Builder, c *v1.Container, value string, f report.Field) {
	ports, chosen, err := docker.ParsePorts(value)
	if err != nil {
		b.Report.Error(f, err.Error(), "")
		return
	}
	if chosen {
		b.Report.Note(f, fmt.Sprintf("the first port of the range is used: %d", ports[0].Host), "")
	}
	if ports[0].Host == 0 {
		b.Report.Lost(f, "no port of the host is published: podman chooses one at each start",
			fmt.Sprintf("write HOST:CONTAINER, such as 8080:%d", ports[0].Container))
	}
	b.AddPorts(c, ports)
}

func (k *container) expose(value string, f report.Field) {
	ports, _, err := docker.ParsePorts(value)
	if err != nil {
		k.report.Error(f, err.Error(), "")
		return
	}
	k.b.AddPorts(k.c, ports)
}

func (k *container) capabilities(value string, drop bool) {
	for _, name := range strings.Fields(value) {
		podbuild.AddCapability(k.c, name, drop)
	}
}

func (k *container) device(value string, f report.Field) {
	value, optional := strings.CutPrefix(value, "-")
	d, err := docker.ParseDevice(value)
	if err != nil {
		k.report.Lost(f, err.Error(), "see docs/devices.md for CDI devices")
		return
	}
	if optional {
		k.report.Note(f, "the pod waits for the device, which podman would leave out if it does not exist", "")
	}
	k.b.AddDevice(k.c, f, d)
}

func (k *container) user(value string, f report.Field) { k.b.SetUser(k.c, f, value) }

func (k *container) group(value string, f report.Field) {
	gid, err := docker.ParseGroup(value)
	if err != nil {
		k.report.Error(f, err.Error(), "")
		return
	}
	podbuild.Security(k.c).RunAsGroup = gid
}

// on returns a boolean, and reports anything else.
func (k *container) on(value string, f report.Field) bool {
	on, err := docker.ParseBool(value)
	if err != nil {
		k.report.Error(f, fmt.Sprintf("is %q", value), err.Error())
	}
	return on
}

func (k *container) readOnly(value string, f report.Field) {
	if on := k.on(value, f); on {
		podbuild.Security(k.c).ReadOnlyRootFilesystem = &on
		if text := k.u.value("Container", "ReadOnlyTmpfs"); text == "" || k.on(text, f) {
			for _, path := range []string{"/run", "/tmp", "/var/tmp"} {
				k.b.AddTmpfs(k.c, path, 0) // as podman does
			}
		}
	}
}

func (k *container) noNewPrivileges(value string, f report.Field) {
	if k.on(value, f) {
		k.b.SecurityOption(k.c, f, "no-new-privileges")
	}
}

func (k *container) seccomp(value string, f report.Field) {
	k.b.SecurityOption(k.c, f, "seccomp="+value)
}

func (k *container) labelDisable(value string, f report.Field) {
	if k.on(value, f) {
		k.b.SecurityOption(k.c, f, "label=disable")
	}
}

func (k *container) sysctl(value string, f report.Field) {
	for _, word := range strings.Fields(value) {
		name, text, ok := strings.Cut(word, "=")
		if !ok {
			k.report.Error(f, fmt.Sprintf("%q is not NAME=VALUE", word), "")
			continue
		}
		k.b.AddSysctl(name, text)
	}
}

func (k *container) stopTimeout(value string, f report.Field) {
	d, err := docker.ParseDuration(value, time.Second)
	if err != nil {
		k.report.Error(f, fmt.Sprintf("is %q", value), err.Error())
		return
	}
	k.b.SetGracePeriod(f, d)
}

func (k *container) stopSignal(value string, f report.Field) {
	if signal := strings.TrimPrefix(strings.ToUpper(value), "SIG"); signal != "TERM" && signal != "15" {
		k.report.Lost(f, "the container gets the signal of its image, or SIGTERM",
			"set lifecycle.stopSignal and os.name: linux with containerd 2.3 or CRI-O 1.33")
	}
}

func (k *container) runInit(value string, f report.Field) {
	if on := k.on(value, f); on {
		k.b.Pod.Spec.ShareProcessNamespace = &on
		k.report.Note(f, "is shareProcessNamespace: process 1 of the pod reaps processes without a parent", "")
	}
}

func (k *container) pull(value string, f report.Field) {
	switch value {
	case "always":
		k.c.ImagePullPolicy = v1.PullAlways
	case "never":
		k.c.ImagePullPolicy = v1.PullNever
	case "missing":
		k.c.ImagePullPolicy = v1.PullIfNotPresent
	default:
		k.report.Lost(f, fmt.Sprintf("the policy %q has no counterpart in a pod", value),
			"set the annotation podstead.io/auto-update: registry")
	}
}

func (k *container) autoUpdate(value string, _ report.Field) {
	k.b.Annotate(podinfo.AnnotationAutoUpdate, value)
}

func (k *container) timezone(value string, f report.Field) {
	if value == "local" {
		k.report.Lost(f, "the container has the time zone of its image", "mount /etc/localtime with a hostPath")
		return
	}
	k.c.Env = append(k.c.Env, v1.EnvVar{Name: "TZ", Value: value})
	k.report.Note(f, "is the variable TZ, which needs the time zones in the image", "")
}

func (k *container) memory(value string, f report.Field) {
	size, err := docker.ParseBytes(value)
	if err != nil {
		k.report.Error(f, fmt.Sprintf("is %q", value), err.Error())
		return
	}
	podbuild.SetLimit(k.c, v1.ResourceMemory, docker.BytesQuantity(size))
}

func (k *container) network(value string, f report.Field) {
	name, _, _ := strings.Cut(value, ":")
	switch {
	case name == "host":
		k.b.Pod.Spec.HostNetwork = true
	case name == "none":
		k.report.Lost(f, "the pod has a network", "use the firewall of the host")
	case strings.HasSuffix(name, ".container"):
		k.report.Error(f, "the network of another container", "put both into one pod with a .pod unit and Pod=")
	case name == "container" || name == "ns":
		k.report.Lost(f, "the network of another container or namespace is not used",
			"put both into one pod with a .pod unit and Pod=")
	default:
		k.report.Note(f, "all pods are on the network of the runtime, and find each other by name", "")
	}
}

// podmanArgs applies the options that are often given this way.
func (k *container) podmanArgs(value string, f report.Field) {
	for _, option := range k.words(value, f) {
		name, text, _ := strings.Cut(option, "=")
		switch name {
		case "--privileged":
		case "--memory":
			k.memory(text, f)
		case "--cpus":
			q, err := docker.ParseCPUs(text)
			if err != nil {
				k.report.Error(f, fmt.Sprintf("--cpus is %q", text), err.Error())
				continue
			}
			podbuild.SetLimit(k.c, v1.ResourceCPU, q)
		case "--pid":
			k.b.Pod.Spec.HostPID = text == "host"
		case "--ipc":
			k.b.Pod.Spec.HostIPC = text == "host"
		default:
			k.report.Lost(f, "the option "+option+" of podman is not carried over", "write its field into the pod")
		}
	}
}

func (k *container) userNS(value string, f report.Field) {
	if value != "host" && value != "" {
		k.report.Lost(f, fmt.Sprintf("the user namespace %q has no counterpart", value),
			"set hostUsers: false for one of the pod's own")
	}
}

func (k *container) dns(_ string, f report.Field) { setDNS(k.converter, k.u, "Container", k.b, f) }

// setDNS sets the resolver from all its keys at once.
func setDNS(c *converter, u *unitFile, section string, b *podbuild.Builder, f report.Field) {
	if b.Pod.Spec.DNSConfig != nil {
		return
	}
	texts := func(key string) (all []string) {
		for _, e := range u.all(section, key) {
			all = append(all, u.expand(e, c.report))
		}
		return all
	}
	b.SetDNS(f, podbuild.DNS{Servers: texts("DNS"), Search: texts("DNSSearch"), Options: texts("DNSOption")})
}
