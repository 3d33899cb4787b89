package csi

import (
	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/usage"
)

// capabilityType is a capability of a driver.
type capabilityType uint64

// The capabilities that matter here, with the numbers of the API.
const (
	capabilityStage      capabilityType = 1
	capabilityStats      capabilityType = 2
	capabilityExpand     capabilityType = 3
	capabilityCondition  capabilityType = 4
	capabilityWriters    capabilityType = 5 // SINGLE_NODE_MULTI_WRITER
	capabilityMountGroup capabilityType = 6
)

// accessMode is an access mode with its number in the API.
type accessMode uint64

// accessModeOf returns the access mode for the one of a PersistentVolume. Only a driver that
// reports it tells one writer on a node from several.
func accessModeOf(mode v1.PersistentVolumeAccessMode, distinguishes bool) accessMode {
	switch {
	case mode == v1.ReadOnlyMany:
		return 3 // MULTI_NODE_READER_ONLY
	case mode == v1.ReadWriteMany:
		return 5 // MULTI_NODE_MULTI_WRITER
	case !distinguishes:
		return 1 // SINGLE_NODE_WRITER
	case mode == v1.ReadWriteOncePod:
		return 6 // SINGLE_NODE_SINGLE_WRITER
	}
	return 7 // SINGLE_NODE_MULTI_WRITER
}

// volumeCapability reports how a volume is used.
type volumeCapability struct {
	fsType     string
	mountFlags []string
	// group is the group that owns the files, empty for none.
	group string
	mode  accessMode
	// block: the volume is a block device, and has nothing of the above but the mode.
	block bool
}

func (c *volumeCapability) encode() []byte {
	var mount, mode, f fields
	mount.text(1, c.fsType)
	for _, flag := range c.mountFlags {
		mount.bytes(2, []byte(flag))
	}
	mount.text(3, c.group)
	if c.block {
		f.bytes(1, nil)
	} else {
		f.bytes(2, mount)
	}
	mode.number(1, uint64(c.mode))
	f.bytes(3, mode)
	return f
}

// empty is a request or a response without content.
type empty struct{}

func (*empty) encode() []byte      { return nil }
func (*empty) decode([]byte) error { return nil }

// request is a message that is only sent.
type request struct{}

func (request) decode([]byte) error { return errMalformed }

// response is a message that is only received.
type response struct{}

func (response) encode() []byte { return nil }

type stageRequest struct {
	request
	volumeID, stagingPath           string
	capability                      volumeCapability
	attachContext, secrets, context map[string]string
}

func (r *stageRequest) encode() []byte {
	var f fields
	f.text(1, r.volumeID)
	f.texts(2, r.attachContext)
	f.text(3, r.stagingPath)
	f.bytes(4, r.capability.encode())
	f.texts(5, r.secrets)
	f.texts(6, r.context)
	return f
}

type publishRequest struct {
	request
	volumeID, stagingPath, targetPath string
	capability                        volumeCapability
	readOnly                          bool
	attachContext, secrets, context   map[string]string
}

func (r *publishRequest) encode() []byte {
	var f fields
	f.text(1, r.volumeID)
	f.texts(2, r.attachContext)
	f.text(3, r.stagingPath)
	f.text(4, r.targetPath)
	f.bytes(5, r.capability.encode())
	f.boolean(6, r.readOnly)
	f.texts(7, r.secrets)
	f.texts(8, r.context)
	return f
}

// pathRequest is the request of NodeUnpublishVolume and of NodeUnstageVolume.
type pathRequest struct {
	request
	volumeID, path string
}

func (r *pathRequest) encode() []byte {
	var f fields
	f.text(1, r.volumeID)
	f.text(2, r.path)
	return f
}

type infoResponse struct {
	response
	nodeID     string
	maxVolumes int64
	topology   map[string]string
}

func (r *infoResponse) decode(data []byte) error {
	return decodeFields(data, func(number protowire.Number, value uint64, data []byte) error {
		switch number {
		case 1:
			r.nodeID = string(data)
		case 2:
			r.maxVolumes = int64(value)
		case 3:
			r.topology = map[string]string{}
			return decodeFields(data, func(_ protowire.Number, _ uint64,
				data []byte) error {
				return decodeEntry(data, r.topology)
			})
		}
		return nil
	})
}

// decodeEntry decodes one entry of a map of texts.
func decodeEntry(data []byte, into map[string]string) error {
	var key, value string
	err := decodeFields(data, func(number protowire.Number, _ uint64, data []byte) error {
		switch number {
		case 1:
			key = string(data)
		case 2:
			value = string(data)
		}
		return nil
	})
	into[key] = value
	return err
}

type capabilitiesResponse struct {
	response
	capabilities map[capabilityType]bool
}

func (r *capabilitiesResponse) decode(data []byte) error {
	r.capabilities = map[capabilityType]bool{}
	add := func(_ protowire.Number, value uint64, _ []byte) error { //nolint:unparam // the signature of a field's decoder
		r.capabilities[capabilityType(value)] = true
		return nil
	}
	rpc := func(_ protowire.Number, _ uint64, data []byte) error { return decodeFields(data, add) }
	return decodeFields(data, func(_ protowire.Number, _ uint64, data []byte) error { return decodeFields(data, rpc) })
}

type expandRequest struct {
	request
	volumeID, path, stagingPath string
	// bytes is the capacity that the volume has at least.
	bytes      int64
	capability volumeCapability
	secrets    map[string]string
}

func (r *expandRequest) encode() []byte {
	var f, capacity fields
	f.text(1, r.volumeID)
	f.text(2, r.path)
	capacity.number(1, uint64(r.bytes))
	f.bytes(3, capacity)
	f.text(4, r.stagingPath)
	f.bytes(5, r.capability.encode())
	f.texts(6, r.secrets)
	return f
}

type statsRequest struct {
	request
	volumeID, path, stagingPath string
}

func (r *statsRequest) encode() []byte {
	var f fields
	f.text(1, r.volumeID)
	f.text(2, r.path)
	f.text(3, r.stagingPath)
	return f
}

// statsResponse is the usage of a volume and its condition.
type statsResponse struct {
	response
	usage usage.ClaimVolume
	// hasBytes: the driver reports the usage in bytes.
	hasBytes bool
}

// The units of an amount, with the numbers of the API.
const (
	unitBytes  = 1
	unitInodes = 2
)

func (r *statsResponse) decode(data []byte) error {
	return decodeFields(data, func(number protowire.Number, _ uint64, data []byte) error {
		switch number {
		case 1:
			return r.decodeUsage(data)
		case 2:
			return r.decodeCondition(data)
		}
		return nil
	})
}

func (r *statsResponse) decodeUsage(data []byte) error {
	var available, total, used, unit uint64
	to := map[protowire.Number]*uint64{1: &available, 2: &total, 3: &used, 4: &unit}
	err := decodeFields(data, func(number protowire.Number, value uint64, _ []byte) error {
		if v := to[number]; v != nil {
			*v = value
		}
		return nil
	})
	switch u := &r.usage; unit {
	case unitBytes:
		u.Available, u.Capacity, u.Used, r.hasBytes = available, total, used, true
	case unitInodes:
		u.InodesFree, u.Inodes, u.InodesUsed = available, total, used
	}
	return err
}

func (r *statsResponse) decodeCondition(data []byte) error {
	c := &usage.VolumeCondition{}
	r.usage.Condition = c
	return decodeFields(data, func(number protowire.Number, value uint64, data []byte) error {
		switch number {
		case 1:
			c.Abnormal = protowire.DecodeBool(value)
		case 2:
			c.Message = string(data)
		}
		return nil
	})
}
