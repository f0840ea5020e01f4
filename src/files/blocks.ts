const encoder = new TextEncoder()

/**
 * Collects chunks in blocks of at most `blockBytes`. A write that does not fit passes the full block to `onFull` and
 * waits for it to resolve. Alternates between two blocks, so a block is not overwritten until the next block has been
 * passed on.
 */
export function blocks(blockBytes: number, onFull: (block: Buffer) => Promise<void>) {
  // Uses only two buffers for the whole result, because one buffer per chunk would fill memory faster than the garbage
  // collector could free it.
  let block = Buffer.allocUnsafeSlow(blockBytes)
  let spare = Buffer.allocUnsafeSlow(blockBytes)
  let filled = 0

  async function add(fill: (into: Buffer) => { filled: number; rest: boolean }): Promise<void> {
    for (let rest = true; rest; ) {
      const step = fill(block.subarray(filled))
      filled += step.filled
      rest = step.rest
      if (!rest) return
      const full = block.subarray(0, filled)
      await onFull(full)
      ;[block, spare, filled] = [spare, block, 0]
    }
  }

  return {
    write: (chunk: Uint8Array | string) => add(typeof chunk === 'string' ? textFiller(chunk) : byteFiller(chunk)),
    /** Returns the bytes of the last block, which has not been passed to `onFull`. */
    rest: () => block.subarray(0, filled),
  }
}

/** Returns a function that writes as much of the remaining text as fits into a block, without splitting characters. */
function textFiller(text: string) {
  let left = text
  return (into: Buffer) => {
    const { read, written } = encoder.encodeInto(left, into)
    left = left.slice(read)
    return { filled: written, rest: left !== '' }
  }
}

function byteFiller(bytes: Uint8Array) {
  let left = bytes
  return (into: Buffer) => {
    const part = left.subarray(0, into.length)
    into.set(part)
    left = left.subarray(part.length)
    return { filled: part.length, rest: left.length > 0 }
  }
}
