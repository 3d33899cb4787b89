package quadlet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
)

func (k *container) volume(value string, f report.Field) {
	m, err := docker.ParseVolume(value)
	if err != nil {
		k.report.Error(f, err.Error(), "")
		return
	}
	k.attach(k.c, k.u, m, f)
}

// attach mounts a path, a .volume unit, or a named volume of podman.
func (c *converter) attach(container *v1.Container, u *unitFile, m docker.Mount, f report.Field) {
	b := c.podOf(u)
	bind := podbuild.Bind{Target: m.Target}
	var idmap bool
	options := slices.DeleteFunc(slices.Clone(m.Options), func(option string) bool {
		idmap = idmap || option == "U" || strings.HasPrefix(option, "idmap")
		return option == "U" || strings.HasPrefix(option, "idmap")
	})
	if idmap {
		c.report.Lost(f, "the owner of the files is not changed",
			"set securityContext.fsGroup, or change the owner on the host")
	}
	if docker.IsPath(m.Source) {
		bind.Path = c.options.Host.Path(c.options.Host.BaseDir(u.path), m.Source)
	}
	b.ApplyOptions(f, &bind, options)
	switch {
	case m.Source == "":
		name := b.AddVolume("data-"+strings.Trim(m.Target, "/"), v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
		container.VolumeMounts = append(container.VolumeMounts,
			v1.VolumeMount{Name: name, MountPath: m.Target, ReadOnly: bind.ReadOnly})
		c.report.Note(f, "the volume has no name, so that its data ends with the pod, also when the pod changes, and it "+
			"begins empty", "name a volume to keep it")
	case bind.Path != "":
		b.AddBind(container, f, &c.options.Host, bind)
	default:
		name := b.AddVolume(strings.TrimSuffix(m.Source, ".volume"), c.source(u, m.Source, b, f))
		container.VolumeMounts = append(container.VolumeMounts,
			v1.VolumeMount{Name: name, MountPath: m.Target, ReadOnly: bind.ReadOnly})
	}
}

// source returns the volume of a .volume unit, or of a named volume of podman: a claim, unless the
// unit names a directory or a server.
func (c *converter) source(u *unitFile, name string, b *podbuild.Builder, f report.Field) v1.VolumeSource {
	claim := podbuild.Name(name)
	if strings.HasSuffix(name, ".volume") {
		unit := c.unit(u, name)
		if unit == nil {
			c.report.Error(f, "there is no unit "+name, "convert the directory, or name both files")
			return v1.VolumeSource{}
		}
		if source := c.volumeOptions(unit); source != nil {
			return *source
		}
		claim = podbuild.Name(unit.name)
		if real := unit.value("Volume", "VolumeName"); real != "" {
			claim = podbuild.Name(real)
		}
		f = unit.file()
	}
	if !c.claimed[claim] {
		c.claimed[claim] = true
		b.AddClaim(claim, nil, f)
		namespace := c.options.Namespace
		if namespace == "" {
			namespace = v1.NamespaceDefault
		}
		c.report.Note(f, "the volume begins empty", "copy data to /var/lib/podstead/volumes/"+namespace+"/"+claim)
	}
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
}

// volumeOptions returns the source of a .volume unit that names a directory or a server; nil for a
// claim.
func (c *converter) volumeOptions(u *unitFile) *v1.VolumeSource {
	device, kind := u.value("Volume", "Device"), u.value("Volume", "Type")
	options := strings.Split(u.value("Volume", "Options"), ",")
	switch {
	case (kind == "none" || kind == "bind" || slices.Contains(options, "bind")) && strings.HasPrefix(device, "/"):
		directory := v1.HostPathDirectory
		return &v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: device, Type: &directory}}
	case strings.HasPrefix(kind, "nfs"):
		server, path, _ := strings.Cut(device, ":")
		for _, option := range options {
			if addr, ok := strings.CutPrefix(option, "addr="); ok && server == "" {
				server = addr
			}
		}
		return &v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: server, Path: path,
			ReadOnly: slices.Contains(options, "ro")}}
	case kind == "tmpfs":
		return &v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}
	case device != "":
		if e, ok := u.last("Volume", "Device"); ok {
			c.report.Lost(u.field(e), "the device is not mounted: the volume is a directory of this node",
				"mount it on the host, and use its path")
		}
	}
	return nil
}

// mount applies Mount=type=…,source=…,destination=….
func (k *container) mount(value string, f report.Field) {
	fields := map[string]string{}
	var flags []string
	for part := range strings.SplitSeq(value, ",") {
		key, text, set := strings.Cut(part, "=")
		if !set {
			flags = append(flags, key)
			continue
		}
		fields[key] = text
	}
	first := func(names ...string) string {
		for _, name := range names {
			if fields[name] != "" {
				return fields[name]
			}
		}
		return ""
	}
	m := docker.Mount{Source: first("source", "src"), Target: first("destination", "dst", "target")}
	if slices.Contains(flags, "ro") || slices.Contains(flags, "readonly") || first("ro", "readonly") == "true" {
		m.Options = append(m.Options, "ro")
	}
	if propagation := first("bind-propagation"); propagation != "" {
		m.Options = append(m.Options, propagation)
	}
	if !strings.HasPrefix(m.Target, "/") {
		k.report.Error(f, "has no absolute destination", "must be type=bind,source=PATH,destination=PATH")
		return
	}
	switch kind := first("type"); kind {
	case "bind", "volume", "":
		k.attach(k.c, k.u, m, f)
	case "tmpfs", "ramfs":
		size, _ := docker.ParseBytes(first("tmpfs-size"))
		k.b.AddTmpfs(k.c, m.Target, size)
	case "image":
		name := k.b.AddVolume("image-"+strings.Trim(m.Target, "/"),
			v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: m.Source}})
		k.c.VolumeMounts = append(k.c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: m.Target, ReadOnly: true})
		k.report.Note(f, "an image as a volume needs containerd 2.1 or CRI-O 1.31", "")
	default:
		k.report.Lost(f, fmt.Sprintf("a mount of the type %q has no counterpart in a pod", kind), "")
	}
}

func (k *container) tmpfs(value string, f report.Field) {
	target, options, _ := strings.Cut(value, ":")
	var size int64
	for option := range strings.SplitSeq(options, ",") {
		if text, ok := strings.CutPrefix(option, "size="); ok {
			var err error
			if size, err = docker.ParseBytes(text); err != nil {
				k.report.Error(f, fmt.Sprintf("the size is %q", text), err.Error())
			}
		} else if option != "" && option != "rw" {
			k.report.Lost(f, "the mount option "+option+" has no counterpart in a pod", "")
		}
	}
	k.b.AddTmpfs(k.c, target, size)
}

func (k *container) shmSize(value string, f report.Field) {
	size, err := docker.ParseBytes(value)
	if err != nil {
		k.report.Error(f, fmt.Sprintf("is %q", value), err.Error())
		return
	}
	k.b.AddTmpfs(k.c, "/dev/shm", size)
}

// secret mounts a secret, whose content podman keeps.
func (k *container) secret(value string, f report.Field) {
	parts := strings.Split(value, ",")
	source := parts[0]
	kind, target := "mount", ""
	var mode *int32
	for _, part := range parts[1:] {
		key, text, _ := strings.Cut(part, "=")
		switch key {
		case "type":
			kind = text
		case "target":
			target = text
		case "mode":
			if bits, err := strconv.ParseInt(text, 8, 16); err == nil && bits >= 0 && bits <= 0o777 {
				value := int32(bits)
				mode = &value
			}
		case "uid", "gid":
			k.report.Lost(f, "the file belongs to root", "make it readable with mode")
		}
	}
	name, key := podbuild.Name(source), podbuild.Key(source)
	k.report.Lost(f, "the content of the secret is in podman", fmt.Sprintf("write a Secret %s with the key %s", name, key))
	if kind == "env" {
		if target == "" {
			target = source
		}
		k.c.Env = append(k.c.Env, v1.EnvVar{Name: target,
			ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
				LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key}}})
		return
	}
	if target == "" {
		target = source
	}
	if !strings.HasPrefix(target, "/") {
		target = "/run/secrets/" + target
	}
	volume := k.b.AddVolume("secret-"+source,
		v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: name, DefaultMode: mode}})
	k.c.VolumeMounts = append(k.c.VolumeMounts,
		v1.VolumeMount{Name: volume, MountPath: target, SubPath: key, ReadOnly: true})
}
