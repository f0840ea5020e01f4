import assert from 'node:assert/strict'
import { crc32, inflateRawSync } from 'node:zlib'

/**
 * Reads the files in a ZIP archive through its central directory (APPNOTE 4.3), and verifies their checksums; returns the
 * files by name.
 */
export function unzip(archive: Buffer): Map<string, Buffer> {
  const end = archive.lastIndexOf(Buffer.from('PK\x05\x06'))
  assert.ok(end >= 0, 'the archive has an end')
  const files = new Map<string, Buffer>()
  let at = archive.readUInt32LE(end + 16)
  for (let left = archive.readUInt16LE(end + 10); left > 0; left--) {
    assert.equal(archive.toString('latin1', at, at + 4), 'PK\x01\x02')
    const [packed, size] = [archive.readUInt32LE(at + 20), archive.readUInt32LE(at + 24)]
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((offset) => archive.readUInt16LE(at + offset))
    const name = archive.toString('utf8', at + 46, at + 46 + (nameLength as number))
    const local = archive.readUInt32LE(at + 42)
    const from = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28)
    const bytes = archive.subarray(from, from + packed)
    const file = archive.readUInt16LE(at + 10) === 0 ? bytes : inflateRawSync(bytes)
    assert.equal(file.length, size, `size of ${name}`)
    assert.equal(crc32(file), archive.readUInt32LE(at + 16), `checksum of ${name}`)
    files.set(name, file)
    at += 46 + (nameLength as number) + (extraLength as number) + (commentLength as number)
  }
  return files
}
