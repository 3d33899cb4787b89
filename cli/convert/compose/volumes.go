package compose

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/convert/tree"
)

func (s *service) volumes(n *tree.Node, f report.Field) {
	for i, item := range listOf(n) {
		at := f.Index(i, item.Position)
		if item.Is(tree.Map) {
			s.longVolume(item, at)
			continue
		}
		m, err := docker.ParseVolume(item.String())
		switch {
		case err != nil:
			s.p.report.Error(at, err.Error(), "")
		case m.Source == "":
			s.anonymous(m.Target, at)
		case docker.IsPath(m.Source):
			bind := podbuild.Bind{Path: s.p.host.Path(s.p.baseDir(item.File), m.Source), Target: m.Target, Create: true}
			s.b.ApplyOptions(at, &bind, m.Options)
			s.b.AddBind(s.c, at, s.p.host, bind)
		default:
			bind := podbuild.Bind{Target: m.Target}
			s.b.ApplyOptions(at, &bind, m.Options)
			s.named(m.Source, v1.VolumeMount{MountPath: m.Target, ReadOnly: bind.ReadOnly}, slices.Contains(m.Options, "nocopy"),
				at)
		}
	}
}

// anonymous mounts a volume without a name, which docker keeps as long as the container.
func (s *service) anonymous(target string, f report.Field) {
	name := s.b.AddVolume("data-"+strings.Trim(target, "/"), v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
	s.c.VolumeMounts = append(s.c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: target})
	s.p.report.Note(f, "the volume has no name, so that its data ends with the pod, also when the pod changes, and it "+
		"begins empty", "give it a name under volumes to keep it")
}

// longVolume mounts a volume in the long form.
func (s *service) longVolume(n *tree.Node, f report.Field) {
	target, source := n.Get("target").String(), n.Get("source").String()
	if !strings.HasPrefix(target, "/") {
		s.p.report.Error(f.Child("target", n.Position), "is "+n.Get("target").Describe(),
			"must be an absolute path in the container")
		return
	}
	readOnly := false
	if r := n.Get("read_only"); !r.IsNull() {
		readOnly = s.bool(r, f.Child("read_only", r.Position))
	}
	for _, field := range n.Fields {
		if !slices.Contains([]string{"type", "source", "target", "read_only", "bind", "volume", "tmpfs", "image",
			"consistency"}, field.Key) && !strings.HasPrefix(field.Key, "x-") {
			s.p.report.Error(f.Child(field.Key, field.Position), "is not a field of a volume", "")
		}
	}
	switch kind := n.Get("type").String(); kind {
	case "bind":
		options := n.Get("bind")
		bind := podbuild.Bind{Path: s.p.host.Path(s.p.baseDir(n.File), source), Target: target, ReadOnly: readOnly,
			Propagation: options.Get("propagation").String()}
		bind.Create = options.Get("create_host_path").String() != "false"
		if label := options.Get("selinux"); !label.IsNull() {
			s.b.ApplyOptions(f, &bind, []string{label.String()})
		}
		s.b.AddBind(s.c, f, s.p.host, bind)
	case "volume":
		if source == "" {
			s.anonymous(target, f)
			return
		}
		options := n.Get("volume")
		s.named(source, v1.VolumeMount{MountPath: target, ReadOnly: readOnly, SubPath: options.Get("subpath").String()},
			options.Get("nocopy").String() == "true", f)
	case "tmpfs":
		s.b.AddTmpfs(s.c, target, s.bytes(n.Get("tmpfs").Get("size"), f))
		if mode := n.Get("tmpfs").Get("mode"); !mode.IsNull() {
			s.p.report.Lost(f, "the mode of the tmpfs is 1777", "change it with an init container")
		}
	case "image":
		name := s.b.AddVolume("image-"+strings.Trim(target, "/"),
			v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: source}})
		s.c.VolumeMounts = append(s.c.VolumeMounts,
			v1.VolumeMount{Name: name, MountPath: target, ReadOnly: true, SubPath: n.Get("image").Get("subpath").String()})
		s.p.report.Note(f, "an image as a volume needs containerd 2.1 or CRI-O 1.31", "")
	default:
		s.p.report.Error(f.Child("type", n.Position), fmt.Sprintf("is %q", kind), "must be bind, volume, tmpfs or image")
	}
}

// bytes returns a size, and reports anything else. Without a value it is 0.
func (s *service) bytes(n *tree.Node, f report.Field) int64 {
	if n.IsNull() {
		return 0
	}
	size, err := docker.ParseBytes(n.String())
	if err != nil {
		s.p.report.Error(f, "is "+n.Describe(), err.Error())
	}
	return size
}

func (s *service) tmpfs(n *tree.Node, f report.Field) {
	for i, item := range listOf(n) {
		target, options, _ := strings.Cut(item.String(), ":")
		at := f.Index(i, item.Position)
		var size int64
		for option := range strings.SplitSeq(options, ",") {
			value, isSize := strings.CutPrefix(option, "size=")
			switch {
			case isSize:
				var err error
				if size, err = docker.ParseBytes(value); err != nil {
					s.p.report.Error(at, fmt.Sprintf("the size is %q", value), err.Error())
				}
			case slices.Contains([]string{"", "rw", "exec", "suid", "dev", "nosuid", "nodev", "mode=1777"}, option):
			default:
				s.p.report.Lost(at, "the mount option "+option+" has no counterpart in a pod", "")
			}
		}
		s.b.AddTmpfs(s.c, target, size)
	}
}

func (s *service) shmSize(n *tree.Node, f report.Field) {
	s.b.AddTmpfs(s.c, "/dev/shm", s.bytes(n, f))
}

// named mounts a volume that the file declares under volumes.
func (s *service) named(name string, mount v1.VolumeMount, noCopy bool, f report.Field) {
	declared := s.p.root.Get("volumes")
	if !slices.Contains(namesOf(declared), name) {
		s.p.report.Error(f, fmt.Sprintf("the volume %q is not declared", name),
			"add it under volumes; a path begins with ./ or /")
		return
	}
	volume := declared.Get(name)
	at := report.Field{At: f.At, Path: "volumes." + name}
	if volume != nil {
		at.At = volume.Position
	}
	if source := s.p.driver(volume, at); source != nil {
		mount.Name = s.b.AddVolume(name, *source)
		s.c.VolumeMounts = append(s.c.VolumeMounts, mount)
		return
	}
	claim := podbuild.Name(name)
	if real := volume.Get("name"); !real.IsNull() {
		claim = podbuild.Name(real.String())
	}
	mount.Name = s.b.AddVolume(name,
		v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
	s.c.VolumeMounts = append(s.c.VolumeMounts, mount)
	if s.p.claimed[claim] {
		return
	}
	s.p.claimed[claim] = true
	s.b.AddClaim(claim, nil, at)
	namespace := s.p.options.Namespace
	if namespace == "" {
		namespace = v1.NamespaceDefault
	}
	dir := filepath.Join("/var/lib/podstead/volumes", namespace, claim)
	problem := "the volume begins empty: files of the image at its path are not copied into it"
	if external := volume.Get("external"); !external.IsNull() && external.String() != "false" {
		problem = "the volume exists in docker, and begins empty here"
	} else if noCopy {
		return
	}
	s.p.report.Note(at, problem, "copy data to "+dir)
}

// driver returns the source of a volume whose options name a directory or a server; nil for a claim.
func (p *project) driver(volume *tree.Node, f report.Field) *v1.VolumeSource {
	for _, field := range fieldsOf(volume) {
		if !slices.Contains([]string{"driver", "driver_opts", "external", "labels", "name"}, field.Key) &&
			!strings.HasPrefix(field.Key, "x-") {
			p.report.Error(f.Child(field.Key, field.Position), "is not a field of a volume", "")
		}
	}
	if driver := volume.Get("driver"); !driver.IsNull() && driver.String() != "local" {
		p.report.Lost(f.Child("driver", driver.Position),
			"the driver "+driver.String()+" is not known: the volume is a directory of this node",
			"mount the storage on the host, and use a path")
		return nil
	}
	options := volume.Get("driver_opts")
	device, kind := options.Get("device").String(), options.Get("type").String()
	flags := strings.Split(options.Get("o").String(), ",")
	switch {
	case options.IsNull() || len(options.Fields) == 0:
		return nil
	case slices.Contains(flags, "bind") && strings.HasPrefix(device, "/"):
		directory := v1.HostPathDirectory
		return &v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: device, Type: &directory}}
	case strings.HasPrefix(kind, "nfs"):
		for _, flag := range flags {
			if server, ok := strings.CutPrefix(flag, "addr="); ok {
				return &v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: server, Path: strings.TrimPrefix(device, ":"),
					ReadOnly: slices.Contains(flags, "ro")}}
			}
		}
	case kind == "tmpfs":
		return &v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}
	}
	p.report.Lost(f.Child("driver_opts", options.Position),
		"the options are not known: the volume is a directory of this node", "mount the storage on the host, and use a path")
	return nil
}
