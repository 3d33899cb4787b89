package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/supervisor/volume/binding"
)

const bindingsVersion = 1

// bindingsFile is the content of the file of bindings.
type bindingsFile struct {
	Version  int               `json:"version"`
	Bindings []binding.Binding `json:"bindings"`
}

// bindingsFormat is the file of bindings. Without it a claim could be bound to the volume of another one.
var bindingsFormat = statefile.Format[bindingsFile]{
	Name: "volume-bindings.json", Version: bindingsVersion, Limit: 64 << 20, Damaged: statefile.Refuse,
	Newer:  statefile.Refuse,
	Encode: statefile.JSON[bindingsFile]("\t", ""),
	Check: func(f *bindingsFile) error {
		if slices.ContainsFunc(f.Bindings, func(b binding.Binding) bool {
			return b.Volume == nil || b.Provisioned && b.Volume.Spec.HostPath == nil
		}) {
			return errors.New("a binding has no volume")
		}
		return nil
	},
}

// bindings are the claims with a PersistentVolume, as they are on disk. The mutex of
// Volumes guards them. A claim that is a directory of its own has none.
type bindings struct {
	loaded bool
	file   *statefile.File[bindingsFile]
	list   []binding.Binding
}

// load reads the file once. A damaged file is an error until it is repaired or removed.
func (v *Volumes) load() error {
	if v.bindings.loaded || v.Bindings == "" {
		return nil
	}
	if v.bindings.file == nil {
		v.bindings.file = bindingsFormat.File(v.Bindings, v.Disk)
	}
	f, err := v.bindings.file.Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to read the bindings of claims: %w; restore %s, or remove it to bind all claims again", err,
			v.Bindings)
	}
	v.bindings.loaded, v.bindings.list = true, f.Bindings
	return nil
}

// save writes the bindings, and puts them into effect if they are on disk.
func (v *Volumes) save(list []binding.Binding) error {
	if v.Bindings == "" {
		return errors.New("no file for the bindings of claims is configured")
	}
	if err := v.load(); err != nil {
		return err
	}
	if err := v.bindings.file.Save(bindingsFile{Version: bindingsVersion, Bindings: list}); err != nil {
		return fmt.Errorf("failed to write the bindings of claims: %w", err)
	}
	v.bindings.list = list
	return nil
}

// bindingOf returns a copy of the binding of a claim; nil if it has none.
func (v *Volumes) bindingOf(namespace, claim string) (*binding.Binding, error) {
	if err := v.load(); err != nil {
		return nil, err
	}
	for i := range v.bindings.list {
		if v.bindings.list[i].IsOf(namespace, claim) {
			found := v.bindings.list[i]
			return &found, nil
		}
	}
	return nil, nil
}

// saveBinding adds or replaces a binding.
func (v *Volumes) saveBinding(b *binding.Binding) error {
	list := slices.Clone(v.bindings.list)
	i := slices.IndexFunc(list, func(o binding.Binding) bool { return o.IsOf(b.Namespace, b.Claim) })
	if i < 0 {
		return v.save(append(list, *b))
	}
	list[i] = *b
	return v.save(list)
}

// removeBinding removes a binding.
func (v *Volumes) removeBinding(b *binding.Binding) error {
	return v.save(v.without(b.Namespace, b.Claim))
}

// without returns the bindings of all other claims.
func (v *Volumes) without(namespace, claim string) []binding.Binding {
	return slices.DeleteFunc(slices.Clone(v.bindings.list),
		func(o binding.Binding) bool { return o.IsOf(namespace, claim) })
}

// ListBindings returns the claims that are bound to a PersistentVolume, sorted as they
// were bound; a directory of their own that is being deleted is none. The volumes are shared and must not be written
// to.
func (v *Volumes) ListBindings() ([]binding.Binding, error) {
	v.claims.Lock()
	defer v.claims.Unlock()
	if err := v.load(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(v.bindings.list), func(b binding.Binding) bool {
		own, err := v.claimDir(b.Namespace, b.Claim)
		return err == nil && b.Deleting && b.Provisioned && hostPathOf(b.Volume) == own
	}), nil
}

// bind returns the binding of a claim that has no directory of its own, and binds it
// first if necessary; nil if it is a directory of its own.
func (s *setup) bind(claim *v1.PersistentVolumeClaim, ownDirectory bool) (*binding.Binding, error) {
	s.claims.Lock()
	defer s.claims.Unlock()
	bound, err := s.bindingOf(claim.Namespace, claim.Name)
	switch {
	case ownDirectory && (err != nil || bound == nil):
		return nil, nil
	case err != nil || bound != nil && (bound.Used || bound.Deleting):
		return bound, err
	}
	others := s.without(claim.Namespace, claim.Name)
	chosen, failure := binding.Choose(&binding.Request{
		Claim: claim, Claims: s.req.Objects.Claims(), Volumes: s.req.Objects.Volumes(),
		Classes: s.req.Objects.StorageClasses(), Bound: others,
		OnNode: func(selector *v1.NodeSelector) bool { return s.OnNode == nil || s.OnNode(selector) },
	})
	if chosen != nil && bound != nil {
		chosen.Volume.CreationTimestamp = bound.Volume.CreationTimestamp
	}
	switch {
	case chosen == nil && bound != nil:
		err = s.save(others)
	case chosen != nil && (bound == nil || !equality.Semantic.DeepEqual(*chosen, *bound)):
		chosen.Volume.CreationTimestamp = metav1.Now().Rfc3339Copy()
		err = s.saveBinding(chosen)
	}
	if failure != nil {
		return nil, fmt.Errorf("is not bound: %w", failure)
	}
	return chosen, err
}

// StorageObjects are the claims, volumes and classes that manifests declare.
type StorageObjects interface {
	Claims() []*v1.PersistentVolumeClaim
	Volumes() []*v1.PersistentVolume
	StorageClasses() []*storagev1.StorageClass
}
