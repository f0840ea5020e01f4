const encoder = new TextEncoder()

/**
 * Gathers chunks in blocks of one size and hands on each full one; the chunk that filled it waits for that. Two blocks
 * take turns: the one handed on is filled again after the next one was handed on.
 */
export function blocks(blockBytes: number, onFull: (block: Buffer) => Promise<void>) {
  // Two for the whole result: a buffer for each chunk would fill the memory faster than it is collected.
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
    /** What no full block holds yet. */
    rest: () => block.subarray(0, filled),
  }
}

/** Puts what is left of a text into a block, whole characters only. */
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
