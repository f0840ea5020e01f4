import { type Block, blocksOf, pageOf } from './pages.ts'

/** The service's files at one step of the tutorial. */
export interface Files {
  'data.ts': string
  'service.ts': string
}

export const tutorial: Block[] = blocksOf(pageOf('tutorial.md'))

const isFile = (name: string): name is keyof Files => name === 'data.ts' || name === 'service.ts'

/**
 * Returns the files after each block of the tutorial. A block for service.ts replaces the whole file. A block for
 * data.ts replaces the declarations of the same names, and inserts new ones in the order of the block.
 */
export function filesAfterEach(blocks: Block[] = tutorial): Files[] {
  let files: Files = { 'data.ts': '', 'service.ts': '' }
  return blocks.map(({ info, text }) => {
    const [language, name = ''] = info.split(' ')
    if (language !== 'ts' || !isFile(name)) return files
    files = { ...files, [name]: name === 'data.ts' ? merged(files['data.ts'], text) : text }
    return files
  })
}

function merged(file: string, block: string): string {
  const declarations = declarationsOf(file)
  const positionOf = (name?: string) => declarations.findIndex(([existing]) => existing === name)
  const changed = declarationsOf(block)
  for (const [at, declaration] of changed.entries().toArray().reverse()) {
    const position = positionOf(declaration[0])
    const next = positionOf(changed[at + 1]?.[0])
    if (position !== -1) declarations[position] = declaration
    else declarations.splice(next === -1 ? declarations.length : next, 0, declaration)
  }
  return `${declarations.map(([, text]) => text).join('\n\n')}\n`
}

/**
 * Returns the top-level statements of a file, which must be separated by blank lines. Each is named by the constant
 * that it declares or the module that it imports.
 */
const declarationsOf = (text: string): [name: string, text: string][] =>
  text
    .split(/\n\n(?=import|export)/)
    .map((one) => one.trimEnd())
    .filter((one) => one !== '')
    .map((one) => [
      /^import .* from (.+)|^export const (.+?) = |^export default/.exec(one)?.slice(1).join('') ?? one,
      one,
    ])

/** The files at each step where the tutorial starts the service. */
export const served: Files[] = filesAfterEach().filter((_, at) => tutorial[at]?.info === 'sh serve')
