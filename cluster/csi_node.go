package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podstead/podstead/internal/csivolume"
)

// Storage has the CSI drivers of the node and their volumes. Implemented by csi.Manager.
type Storage interface {
	// Drivers returns the registered drivers, sorted by name.
	Drivers() []csivolume.NodeDriver
	// InUse returns the volumes that the node uses, sorted. The error is why they are not known.
	InUse() ([]csivolume.ID, error)
	// Subscribe notifies after one of these changed, until the function is called.
	Subscribe() (<-chan struct{}, func())
}

// nodeStorage is what the API server knows of the node's drivers.
type nodeStorage struct {
	// written is the CSINode object as it was last read or written, nil if it is not known, and owner the
	// Node for which that was. Only the loop of the storage uses them.
	written *csiNode
	owner   types.UID
	// wasRegistered are drivers that have registered with this process. Entries of others stay: a
	// driver whose pod starts again after podstead was restarted must not disappear meanwhile.
	wasRegistered map[string]bool
	// conflicts are the labels of drivers that the Node object has with other values. Only the
	// loop of the node uses them, and refused, the labels that the API server refused at refusedAt.
	conflicts string
	refused   []byte
	refusedAt time.Time
}

// csiNode is the part of a CSINode object (storage.k8s.io/v1) that a node writes. Fields that are not known
// here stay in the entries.
type csiNode struct {
	APIVersion string         `json:"apiVersion,omitempty"`
	Kind       string         `json:"kind,omitempty"`
	Metadata   csiNodeMeta    `json:"metadata"`
	Spec       csiNodeDrivers `json:"spec"`
}

type csiNodeMeta struct {
	Name            string     `json:"name,omitempty"`
	ResourceVersion string     `json:"resourceVersion,omitempty"`
	Owners          []csiOwner `json:"ownerReferences"`
}

type csiOwner struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
}

type csiNodeDrivers struct {
	Drivers []map[string]any `json:"drivers"`
}

// driverEntry returns the entry of a driver as JSON decodes it, so that both can be compared.
func driverEntry(d *csivolume.NodeDriver) map[string]any {
	keys := []any{}
	for _, key := range slices.Sorted(maps.Keys(d.Topology)) {
		keys = append(keys, key)
	}
	entry := map[string]any{"name": d.Name, "nodeID": d.NodeID, "topologyKeys": keys}
	if d.MaxVolumes > 0 {
		// The API has 32 bits, and refuses the whole object for more.
		entry["allocatable"] = map[string]any{"count": float64(min(d.MaxVolumes, math.MaxInt32))}
	}
	return entry
}

func entryName(entry map[string]any) string {
	name, _ := entry["name"].(string)
	return name
}

// sameEntry compares entries; the API server leaves out what is empty.
func sameEntry(a, b map[string]any) bool {
	text := func(e map[string]any) string {
		e = maps.Clone(e)
		if keys, _ := e["topologyKeys"].([]any); len(keys) == 0 {
			delete(e, "topologyKeys")
		}
		data, _ := json.Marshal(e)
		return string(data)
	}
	return text(a) == text(b)
}

// followStorage notifies the loops of the node and of the storage after a change.
func (a *Adapter) followStorage(ctx context.Context) {
	changed, end := a.cfg.Storage.Subscribe()
	defer end()
	for {
		select {
		case <-changed:
			a.nodeChanged.Notify()
			a.storageChanged.Notify()
		case <-ctx.Done():
			return
		}
	}
}

// inUseName is how a Node object names a volume.
func inUseName(id csivolume.ID) v1.UniqueVolumeName {
	return v1.UniqueVolumeName("kubernetes.io/csi/" + id.Driver + "^" + id.Handle)
}

// reportsInUse reports whether the Node object reports that a volume is in use, so that no controller detaches it.
func (a *Adapter) reportsInUse(id csivolume.ID) bool {
	if a.cfg.Storage == nil {
		return true // nothing reports it
	}
	node := a.node()
	return node != nil && slices.Contains(node.Status.VolumesInUse, inUseName(id))
}

// reportsAttached reports whether the Node object reports that a controller has attached a volume to the node.
func (a *Adapter) reportsAttached(id csivolume.ID) bool {
	if a.cfg.Storage == nil {
		return true
	}
	node, name := a.node(), inUseName(id)
	return node != nil && slices.ContainsFunc(node.Status.VolumesAttached,
		func(v v1.AttachedVolume) bool { return v.Name == name })
}

// volumesInUse returns the volumes that the node uses or is about to use: all persistent volumes of drivers,
// also those that no controller attaches, since only these controllers read the list. A controller must not detach
// what may be in use, so that the list stays while it is not known.
func (a *Adapter) volumesInUse(registered *v1.Node) (names []v1.UniqueVolumeName) {
	ids, err := a.cfg.Storage.InUse()
	if err != nil {
		names = slices.Clone(registered.Status.VolumesInUse)
	}
	if a.cfg.Objects != nil {
		ids = append(ids, a.cfg.Objects.attaching()...)
	}
	for _, id := range ids {
		names = append(names, inUseName(id))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// withStorage returns the node with the volumes in use.
func (a *Adapter) withStorage(local, registered *v1.Node) *v1.Node {
	if a.cfg.Storage == nil {
		return local
	}
	node := *local
	node.Status.VolumesInUse = a.volumesInUse(registered)
	return &node
}

// syncTopology sets the topology labels of the drivers on the Node object. A label that it has with another value is
// left alone. It is the last of what is written of a node: an API server that refuses the label of a driver
// must not keep the status from being reported.
func (a *Adapter) syncTopology(ctx context.Context, registered *v1.Node) error {
	if a.cfg.Storage == nil {
		return nil
	}
	labels := map[string]any{}
	var conflicts []string
	for _, d := range a.cfg.Storage.Drivers() {
		for _, key := range slices.Sorted(maps.Keys(d.Topology)) {
			value := d.Topology[key]
			now, ok := registered.Labels[key]
			switch {
			case !ok:
				labels[key] = value
			case now != value:
				conflicts = append(conflicts, fmt.Sprintf("CSI driver %s reports %s=%s, and the Node object has the label with "+
					"the value %q", d.Name, key, value, now))
			}
		}
	}
	if text := strings.Join(conflicts, "; "); text != a.storage.conflicts {
		a.storage.conflicts = text
		if text != "" {
			a.cfg.Log.Warn("Topology of a CSI driver differs from the labels of the node; remove the label to use the driver's",
				"conflicts", text)
		}
	}
	if len(labels) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": registered.UID, "labels": labels}})
	if err != nil {
		return err
	}
	s := &a.storage
	if bytes.Equal(patch, s.refused) && time.Since(s.refusedAt) < a.cfg.Registration.ReportInterval {
		return nil
	}
	_, err = a.patchNode(ctx, registered, patch)
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		if !bytes.Equal(patch, s.refused) {
			a.cfg.Log.Warn("The API server refuses the topology labels of CSI drivers, so that pods are not scheduled to this "+
				"node by the topology of their volumes; set the labels as an administrator, or configure another topology in the "+
				"driver", "labels", labels, "err", err)
		}
		s.refused, s.refusedAt = patch, time.Now()
		return nil
	case err != nil:
		return fmt.Errorf("failed to set the topology labels of CSI drivers: %w", err)
	}
	s.refused = nil
	return nil
}

// maxCSINodeWrites is how often a CSINode object is written in a row: an entry that changes is removed first.
const maxCSINodeWrites = 3

// syncCSINode makes the CSINode object list the registered drivers.
func (a *Adapter) syncCSINode(ctx context.Context) (time.Duration, error) {
	node := a.node()
	if node == nil {
		a.storage.written = nil
		return 0, nil // the watch notifies
	}
	s := &a.storage
	if s.owner != node.UID {
		s.written, s.owner = nil, node.UID
	}
	drivers := a.cfg.Storage.Drivers()
	for i := range drivers {
		s.wasRegistered[drivers[i].Name] = true // also if a previous process has written the same entry
	}
	for range maxCSINodeWrites {
		if s.written == nil {
			found, err := a.requestCSINode(ctx, a.client.storage.Get().Name(node.Name), nil)
			switch {
			case apierrors.IsNotFound(err):
				found = &csiNode{}
			case err != nil:
				return 0, fmt.Errorf("failed to read CSINode %s: %w", node.Name, err)
			}
			s.written = found
		}
		want := s.next(drivers, node)
		if want == nil {
			break
		}
		request := a.client.storage.Patch(types.MergePatchType).Name(node.Name)
		if s.written.Metadata.ResourceVersion == "" {
			want.APIVersion, want.Kind, want.Metadata.Name = "storage.k8s.io/v1", "CSINode", node.Name
			request = a.client.storage.Post()
		}
		made, err := a.requestCSINode(ctx, request, want)
		if s.written = made; err != nil {
			return 0, fmt.Errorf("failed to write CSINode %s: %w", node.Name, err)
		}
	}
	return 0, nil
}

// next returns what is to be written next, nil if the object is as it should be. The API server does not let
// an entry change: it is removed first.
func (s *nodeStorage) next(drivers []csivolume.NodeDriver, node *v1.Node) *csiNode {
	desired := map[string]map[string]any{}
	for i := range drivers {
		desired[drivers[i].Name] = driverEntry(&drivers[i])
	}
	kept, changes := []map[string]any{}, false
	for _, entry := range s.written.Spec.Drivers {
		name := entryName(entry)
		want := desired[name]
		if want == nil && !s.wasRegistered[name] || want != nil && sameEntry(entry, want) {
			kept = append(kept, entry)
			delete(desired, name)
			continue
		}
		changes = changes || want != nil
	}
	owners := []csiOwner{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	same := len(kept) == len(s.written.Spec.Drivers) && len(desired) == 0 &&
		slices.Equal(s.written.Metadata.Owners, owners)
	if same && s.written.Metadata.ResourceVersion != "" {
		return nil
	}
	if !changes {
		for _, name := range slices.Sorted(maps.Keys(desired)) {
			kept = append(kept, desired[name])
		}
	}
	return &csiNode{
		Metadata: csiNodeMeta{ResourceVersion: s.written.Metadata.ResourceVersion, Owners: owners},
		Spec:     csiNodeDrivers{Drivers: kept},
	}
}

// requestCSINode sends a request for the CSINode object with a body, nil for none, and returns the object.
func (a *Adapter) requestCSINode(ctx context.Context, request *rest.Request, body *csiNode) (*csiNode, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request = request.Resource("csinodes").SetHeader("Accept", "application/json")
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		if body.Kind != "" { // a patch has its content type
			request = request.SetHeader("Content-Type", "application/json")
		}
		request = request.Body(data)
	}
	data, err := request.Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var found csiNode
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("the API server sent something else than a CSINode: %w", err)
	}
	return &found, nil
}
