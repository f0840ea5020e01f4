import { existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'

/** A declaration at the beginning of a line belongs to the module; an empty collection is useless unless code fills it. */
const declarations = [
  /^(?:export )?(?:let|var) ([\w$]+)/,
  /^(?:export )?const ([\w$]+)(?:: [^;]+)? = (?:new (?:Map|Set|WeakMap|WeakSet)(?:<.*>)?\(\)|\[\]|\{\})(?: as [^=]+)?;?$/,
]
const allowed = /\/\/ *per thread\b/

/**
 * Returns the variables of a module and its constants that hold an empty array, object, `Map` or `Set`, with the numbers
 * of their lines. Reads the text only, so it finds the usual declarations. A line with the comment `// per thread` is
 * allowed.
 */
export function moduleState(source: string): { name: string; line: number }[] {
  const found: { name: string; line: number }[] = []
  for (const [at, text] of source.split(/\r?\n/).entries()) {
    const [code = ''] = text.split(' // ')
    const name = declarations.map((declaration) => declaration.exec(code.trimEnd())?.[1]).find(Boolean)
    if (name !== undefined && !allowed.test(text)) found.push({ name, line: at + 1 })
  }
  return found
}

/** Prints a warning for each variable of these modules, because every thread and node has its own value. */
export function warnOfModuleState(files: Iterable<string>): void {
  for (const file of [...files].filter((file) => /\.[cm]?[jt]s$/.test(file) && existsSync(file)))
    for (const { name, line } of moduleState(readFileSync(file, 'utf8')))
      process.stderr.write(
        `plinth: ${relative(process.cwd(), file)}:${line}: \`${name}\` has its own value in each serving thread and node; ` +
          'keep shared state in rows, or mark the line with // per thread\n',
      )
}
