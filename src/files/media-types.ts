import { isUtf8 } from 'node:buffer'

/** A media type, and how content of this type is checked. */
interface MediaType {
  /** The file name extension, without the dot. */
  extension: string
  /**
   * Returns whether content that starts with these bytes can be of this type. Undefined for text, and for types that
   * allow any content.
   */
  begins?: (head: Buffer) => boolean
  /** Whether the content must be UTF-8 without NUL. */
  isText?: true
}

/** The maximum number of leading bytes passed to `begins`. */
export const headBytes = 1_100

/** Returns a check for bytes at an offset; `text` contains the bytes as Latin-1. */
const has =
  (text: string, offset = 0) =>
  (head: Buffer) =>
    head.toString('latin1', offset, offset + text.length) === text
const either =
  (...checks: ((head: Buffer) => boolean)[]) =>
  (head: Buffer) =>
    checks.some((check) => check(head))
const both =
  (...checks: ((head: Buffer) => boolean)[]) =>
  (head: Buffer) =>
    checks.every((check) => check(head))

/** Checks the brand of an ISO base media file (ISO 14496-12, section 4.3). */
const brand = (pattern: RegExp) => (head: Buffer) =>
  has('ftyp', 4)(head) && pattern.test(head.toString('latin1', 8, 40))
const zip = either(has('PK\x03\x04'), has('PK\x05\x06'))
/** Readers accept up to 1,024 bytes before the header of a PDF file. */
const pdf = (head: Buffer) => head.subarray(0, 1_024 + 5).includes('%PDF-', 0, 'latin1')
/** Checks for the sync word of an MPEG audio frame, and for layer III (MP3). */
const mpegFrame = (head: Buffer) => head[0] === 0xff && ((head[1] ?? 0) & 0xe6) === 0xe2
const office = 'application/vnd.openxmlformats-officedocument.'
const openDocument = 'application/vnd.oasis.opendocument.'
const text = (extension: string): MediaType => ({ extension, isText: true })

const mediaTypes: Readonly<Record<string, MediaType>> = {
  'application/gzip': { extension: 'gz', begins: has('\x1f\x8b') },
  'application/json': text('json'),
  'application/pdf': { extension: 'pdf', begins: pdf },
  'application/xml': text('xml'),
  'application/zip': { extension: 'zip', begins: zip },
  [`${office}presentationml.presentation`]: { extension: 'pptx', begins: zip },
  [`${office}spreadsheetml.sheet`]: { extension: 'xlsx', begins: zip },
  [`${office}wordprocessingml.document`]: { extension: 'docx', begins: zip },
  [`${openDocument}presentation`]: { extension: 'odp', begins: zip },
  [`${openDocument}spreadsheet`]: { extension: 'ods', begins: zip },
  [`${openDocument}text`]: { extension: 'odt', begins: zip },
  'audio/flac': { extension: 'flac', begins: has('fLaC') },
  'audio/mpeg': { extension: 'mp3', begins: either(has('ID3'), mpegFrame) },
  'audio/ogg': { extension: 'ogg', begins: has('OggS') },
  'audio/wav': { extension: 'wav', begins: both(has('RIFF'), has('WAVE', 8)) },
  'image/avif': { extension: 'avif', begins: brand(/avi[fs]/) },
  'image/bmp': { extension: 'bmp', begins: has('BM') },
  'image/gif': { extension: 'gif', begins: either(has('GIF87a'), has('GIF89a')) },
  'image/heic': { extension: 'heic', begins: brand(/hei[cx]|mif1/) },
  'image/jpeg': { extension: 'jpg', begins: has('\xff\xd8\xff') },
  'image/png': { extension: 'png', begins: has('\x89PNG\r\n\x1a\n') },
  'image/svg+xml': text('svg'),
  'image/tiff': { extension: 'tif', begins: either(has('II*\0'), has('MM\0*')) },
  'image/webp': { extension: 'webp', begins: both(has('RIFF'), has('WEBP', 8)) },
  'text/calendar': text('ics'),
  'text/csv': text('csv'),
  'text/markdown': text('md'),
  'text/plain': text('txt'),
  'text/xml': text('xml'),
  'video/mp4': { extension: 'mp4', begins: has('ftyp', 4) },
  'video/webm': { extension: 'webm', begins: has('\x1a\x45\xdf\xa3') },
  // This type allows any content.
  'application/octet-stream': { extension: 'bin' },
}

/** The media types that a file field can allow. */
export const knownTypes: readonly string[] = Object.keys(mediaTypes)

/** Returns the file name extension for a media type; `bin` if the type is unknown. */
export const extensionOf = (type: string): string => mediaTypes[type]?.extension ?? 'bin'

/** Returns the Content-Type of a stored file. */
export const contentTypeOf = (type: string): string =>
  mediaTypes[type]?.isText && type.startsWith('text/') ? `${type}; charset=utf-8` : type

/** Checks the content of a file while it arrives. */
export interface ContentCheck {
  /** Returns false as soon as the content cannot be of the type. */
  accepts: (chunk: Buffer) => boolean
  /**
   * Call this after `accepts` has returned true for every chunk. Returns whether the complete content can be of the
   * type.
   */
  ends: () => boolean
}

/** Returns a check of one file against its media type: by the first bytes or, for text, by the encoding. */
export function contentCheck(type: string): ContentCheck {
  const { begins, isText } = mediaTypes[type] ?? {}
  if (isText) return textCheck()
  return begins ? headCheck(begins) : { accepts: () => true, ends: () => true }
}

function headCheck(begins: (head: Buffer) => boolean): ContentCheck {
  let head = Buffer.alloc(0)
  let isChecked = false
  return {
    accepts: (chunk) => {
      if (isChecked) return true
      head = Buffer.concat([head, chunk.subarray(0, headBytes - head.length)])
      isChecked = head.length >= headBytes
      return !isChecked || begins(head)
    },
    ends: () => isChecked || begins(head),
  }
}

function textCheck(): ContentCheck {
  // The incomplete character at the end of the previous chunk.
  let rest = Buffer.alloc(0)
  return {
    accepts: (chunk) => {
      const bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk
      const end = bytes.length - incompleteBytes(bytes)
      rest = Buffer.from(bytes.subarray(end))
      const whole = bytes.subarray(0, end)
      return isUtf8(whole) && !whole.includes(0)
    },
    ends: () => rest.length === 0,
  }
}

/** Returns how many bytes at the end, 3 at most, belong to an incomplete UTF-8 character. */
function incompleteBytes(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] as number
    if ((byte & 0xc0) === 0x80) continue
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return length > back ? back : 0
  }
  return 0
}
