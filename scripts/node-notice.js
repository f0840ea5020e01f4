// npm runs this script after an installation. It replaces npm's engine warnings, which .npmrc disables: with an old Node.js,
// npm would print them for nearly every package and before each `npx`, although the project uses the Node.js that `npm ci`
// installs.
const { npm_command: command, npm_config_user_agent: agent = '' } = process.env
const needed = 24
const ofNpm = Number(/\bnode\/v(\d+)/.exec(agent)?.[1])
const here = process.versions.node
if (ofNpm < needed && ['ci', 'install'].includes(command)) {
  const text =
    Number.parseInt(here, 10) < needed
      ? `Node.js ${needed} is required; npm installs it only together with the development dependencies`
      : `npm runs on Node.js ${ofNpm}; npm start, npm run and npx plinth use ${here}, which is installed here`
  process.stderr.write(`plinth: ${text}.\n`)
}
