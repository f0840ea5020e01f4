import { parseArgs } from 'node:util'

/** Returns the arguments of a script whose only option is `--help`, which prints the usage and exits. */
export function positionalsOr(usage: string): string[] {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { help: { type: 'boolean', default: false } },
  })
  if (!values.help) return positionals
  process.stdout.write(usage)
  process.exit()
}
