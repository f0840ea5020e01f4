/**
 * What a client_id looks like. Users' ids are digits: a client of such a name would be taken for the user in its tokens,
 * where `sub` is one or the other (RFC 9068 §5). Dots alone cannot stand in a path (RFC 3986 §5.2.4).
 */
export const clientIdPattern = /^(?!\d+$|\.{1,2}$)[A-Za-z0-9._~-]{1,128}$/

export const clientIdRule = '1 to 128 characters of A-Z a-z 0-9 . _ ~ -, and not digits or dots alone'
