package image

// PushIndex makes images for several platforms available under ref, whatever host ref names,
// and returns the digest of their index.
func (r *Registry) PushIndex(ref string, images ...Image) (digest string, err error) {
	var index Index
	for _, i := range images {
		// Its own blobs and manifest, with their media types.
		if err := r.Push(ref, i); err != nil {
			return "", err
		}
		index = append(index, i.Descriptor())
	}
	data := encode(index)
	root := describe(TypeIndex, data)
	return root.Digest, r.push(ref, root, data, nil)
}
