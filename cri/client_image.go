package cri

import (
	"context"
	"strconv"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PullImage pulls an image and returns the runtime's reference to it. It has no
// deadline of ours: a big image on a slow line is no error, and the runtime ends
// a pull that makes no progress. auth may be nil.
func (c *Client) PullImage(ctx context.Context, image string, auth *runtimeapi.AuthConfig) (string, error) {
	a, err := writeImage(ctx, c, operation{"pull image", strconv.Quote(image)}, noLimit,
		runtimeapi.ImageServiceClient.PullImage,
		&runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}, Auth: auth})
	if err != nil {
		return "", err
	}
	return a.ImageRef, nil
}

// ImageStatus looks up an image by reference or ID; nil without an error means
// that it is not present.
func (c *Client) ImageStatus(ctx context.Context, image string) (*runtimeapi.Image, error) {
	a, err := readImage(ctx, c, operation{"inspect image", strconv.Quote(image)},
		runtimeapi.ImageServiceClient.ImageStatus,
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	if err != nil {
		return nil, err
	}
	return a.Image, nil
}

// ListImages lists all images of the runtime.
func (c *Client) ListImages(ctx context.Context) ([]*runtimeapi.Image, error) {
	a, err := readImage(ctx, c, operation{verb: "list images"}, runtimeapi.ImageServiceClient.ListImages,
		&runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, err
	}
	return a.Images, nil
}

// RemoveImage removes an image. An image that is gone is not an error.
func (c *Client) RemoveImage(ctx context.Context, image string) error {
	_, err := writeImage(ctx, c, operation{"remove image", strconv.Quote(image)}, c.timeout,
		runtimeapi.ImageServiceClient.RemoveImage,
		&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	return ignoreNotFound(err)
}

// ImageFsInfo returns the usage of the image and container file systems.
func (c *Client) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return readImage(ctx, c, operation{verb: "get the usage of the image file systems"},
		runtimeapi.ImageServiceClient.ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
}
