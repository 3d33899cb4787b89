package csivolume

// NodeDriver is a driver that has registered on this node.
type NodeDriver struct {
	// Name is the name of the driver, and NodeID that of this node for it.
	Name, NodeID string
	// MaxVolumes is how many volumes it can publish on this node; 0 is not known.
	MaxVolumes int64
	// Expands: the driver can expand volumes on this node.
	Expands bool
	// Topology reports from where on the node's network the driver's volumes are accessible, by keys of labels.
	Topology map[string]string
}

// ID identifies a volume: its driver, and the handle that the driver has given to it.
type ID struct{ Driver, Handle string }
