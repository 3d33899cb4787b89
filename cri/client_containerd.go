package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
)

// This file has the calls of containerd's own API that CRI has none for. Their few fields are written and read by hand:
// the generated types would bring containerd's other transport and its logger into the program.

const (
	// containerdNamespace is that of containerd's CRI plugin.
	containerdNamespace = "k8s.io"
	// leaseExpires is the label of a lease that a client took for a pull or an import: until it expires, after a day,
	// it keeps what these brought. Other leases, such as those of sandboxes, have no such label.
	leaseExpires = "containerd.io/gc.expire"
)

// The numbers of the fields in containerd's API v1.
const (
	fieldLeases       = 1 // of leases.ListResponse
	fieldLeaseID      = 1
	fieldLeaseCreated = 2
	fieldLeaseLabels  = 3

	fieldDeleteID   = 1 // of leases.DeleteRequest
	fieldDeleteSync = 2

	fieldImage     = 1 // of images.GetImageResponse and CreateImageRequest
	fieldImageName = 1 // of images.Image and GetImageRequest

	fieldMapKey  = 1
	fieldSeconds = 1
	fieldNanos   = 2
)

// DropLeases deletes containerd's leases of pulls and imports for which drop returns true, by the time at which they
// were created, and waits until containerd has removed what only they kept: layers and contents of images that did not
// become complete. A runtime without leases is no error.
func (c *Client) DropLeases(ctx context.Context, drop func(created time.Time) bool) error {
	response, err := c.containerd(ctx, operation{verb: "list leases"}, "leases.v1.Leases/List", nil)
	if errors.Is(err, ErrUnimplemented) {
		return nil
	}
	if err != nil {
		return err
	}
	var ids []string
	err = eachField(response, func(number protowire.Number, value []byte) error {
		if number != fieldLeases {
			return nil
		}
		id, created, expires, err := decodeLease(value)
		if err == nil && expires && drop(created) {
			ids = append(ids, id)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("failed to read containerd's leases: %w", err)
	}
	for i, id := range ids {
		request := protowire.AppendString(protowire.AppendTag(nil, fieldDeleteID, protowire.BytesType), id)
		if i == len(ids)-1 {
			request = protowire.AppendVarint(protowire.AppendTag(request, fieldDeleteSync, protowire.VarintType), 1)
		}
		_, err := c.containerd(ctx, operation{"delete lease", id}, "leases.v1.Leases/Delete", request)
		if ignoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// RestoreImageName gives an image its name back, which another image had taken and no longer has. It does nothing if
// the runtime is not containerd or no longer has the image.
func (c *Client) RestoreImageName(ctx context.Context, name, id string) error {
	request := protowire.AppendString(protowire.AppendTag(nil, fieldImageName, protowire.BytesType), id)
	response, err := c.containerd(ctx, operation{"get image", id}, "images.v1.Images/Get", request)
	if errors.Is(err, ErrUnimplemented) || errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	// All fields but the name are those of the image.
	image := protowire.AppendString(protowire.AppendTag(nil, fieldImageName, protowire.BytesType), name)
	err = eachField(response, func(number protowire.Number, found []byte) error {
		if number != fieldImage {
			return nil
		}
		return eachField(found, func(number protowire.Number, value []byte) error {
			if number != fieldImageName {
				image = protowire.AppendBytes(protowire.AppendTag(image, number, protowire.BytesType), value)
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("failed to read containerd's image %s: %w", id, err)
	}
	request = protowire.AppendBytes(protowire.AppendTag(nil, fieldImage, protowire.BytesType), image)
	_, err = c.containerd(ctx, operation{"name image", id}, "images.v1.Images/Create", request)
	if errors.Is(err, ErrExists) {
		return nil
	}
	return err
}

// containerd makes a call of containerd's API, and returns the response as it is on the wire.
func (c *Client) containerd(ctx context.Context, op operation, method string, request []byte) ([]byte, error) {
	ctx2, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "containerd-namespace", containerdNamespace),
		c.timeout)
	defer cancel()
	var response []byte
	err := c.conn.Invoke(ctx2, "/containerd.services."+method, request, &response, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return nil, c.wrapError(ctx, op, c.timeout, err)
	}
	return response, nil
}

// decodeLease returns the ID of a lease, when it was created, and whether it expires.
func decodeLease(lease []byte) (id string, created time.Time, expires bool, err error) {
	err = eachField(lease, func(number protowire.Number, value []byte) error {
		switch number {
		case fieldLeaseID:
			id = string(value)
		case fieldLeaseCreated:
			seconds, nanos, err := decodeTimestamp(value)
			created = time.Unix(seconds, nanos)
			return err
		case fieldLeaseLabels:
			return eachField(value, func(number protowire.Number, key []byte) error {
				expires = expires || number == fieldMapKey && string(key) == leaseExpires
				return nil
			})
		}
		return nil
	})
	return id, created, expires, err
}

// decodeTimestamp returns the fields of a google.protobuf.Timestamp.
func decodeTimestamp(message []byte) (seconds, nanos int64, err error) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0, 0, protowire.ParseError(n)
		}
		message = message[n:]
		if kind != protowire.VarintType {
			return 0, 0, errors.New("a timestamp has a field of another type")
		}
		value, n := protowire.ConsumeVarint(message)
		if n < 0 {
			return 0, 0, protowire.ParseError(n)
		}
		message = message[n:]
		switch number {
		case fieldSeconds:
			seconds = int64(value)
		case fieldNanos:
			nanos = int64(value)
		}
	}
	return seconds, nanos, nil
}

// eachField calls f for each field of a message that is a string, bytes or a message; others are skipped.
func eachField(message []byte, f func(number protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return protowire.ParseError(n)
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(number, value); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

// rawCodec passes messages as they are on the wire.
type rawCodec struct{}

// Marshal implements encoding.Codec.
func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

// Unmarshal implements encoding.Codec.
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// Name implements encoding.Codec; it is the content subtype that containerd expects.
func (rawCodec) Name() string { return "proto" }
